//! Exports read by the programs that people read them with. They need a Python with pandas, pyarrow, duckdb and
//! prometheus_client, whose path is in `DLRUN_TEST_EXPORT_PYTHON`; `tests/run` makes one.

use std::process::Command;

use crate::cli_export::{Site, put_all};

/// Writes every table in a format and has Python look at it; what Python says.
fn read(site: &Site, format: &str, tables: &str, script: &str) -> String {
    let python =
        std::env::var("DLRUN_TEST_EXPORT_PYTHON").expect("DLRUN_TEST_EXPORT_PYTHON: see tests/run");
    let (db, out) = (
        site.db.to_string_lossy().into_owned(),
        site.out.to_string_lossy().into_owned(),
    );
    let arguments = [
        "export",
        "--store",
        &db,
        "--what",
        tables,
        "--format",
        format,
        "--output-dir",
        &out,
    ];
    drop(site.env.dlrun(arguments).run().code(0));
    let done = Command::new(python)
        .args(["-I", "-c", script])
        .arg(&out)
        .output()
        .expect("it starts");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).expect("text")
}

fn site() -> Site {
    let site = Site::new();
    let mut store = site.store();
    put_all(&mut store, 1);
    put_all(&mut store, 2);
    site
}

const ALL: &str = "runs,usage,timings,gpus,events,samples,gpu-samples,process-samples";
const ROWS: &str = "events 2\ngpu-samples 10\ngpus 2\nprocess-samples 10\nruns 2\nsamples 10\ntimings 4\nusage 2\n";

#[test]
#[ignore = "needs Python with pandas: tests/run"]
fn pandas_reads_csv() {
    let script = "
import glob, json, os, pandas, sys
for path in sorted(glob.glob(sys.argv[1] + '/*.csv')):
    rows = pandas.read_csv(path)
    print(os.path.basename(path)[:-4], len(rows))
    if path.endswith('/events.csv'):
        assert rows.detail[0] == 'line\\nbreak, \"quoted\"', rows.detail[0]
    if path.endswith('/timings.csv'):
        assert list(rows.seconds) == [2.5, 1.25] * 2, rows.seconds
        assert json.loads(rows.metrics[1]) == {'loss': 0.5}
        assert rows.evaluation_seconds.isna().all() and rows.warmup.dtype == bool
";
    assert_eq!(read(&site(), "csv", ALL, script), ROWS);
}

#[test]
#[ignore = "needs Python with pyarrow and duckdb: tests/run"]
fn pyarrow_and_duckdb_read_parquet() {
    let script = "
import duckdb, glob, os, pyarrow.parquet as parquet, sys
for path in sorted(glob.glob(sys.argv[1] + '/*.parquet')):
    table = parquet.read_table(path)
    rows = duckdb.sql(f\"SELECT count(*), count(DISTINCT seq) FROM '{path}'\").fetchall()[0]
    assert rows[0] == table.num_rows, rows
    assert parquet.read_metadata(path).metadata[b'dlrun.format'] == b'1'
    print(os.path.basename(path)[:-8], table.num_rows)
    if path.endswith('/timings.parquet'):
        assert table['seconds'].to_pylist() == [2.5, 1.25] * 2
        assert table['clock_seconds'].null_count == 4 and table['event'].to_pylist() == [False] * 4
        assert duckdb.sql(f\"SELECT sum((metrics::JSON->>'loss')::DOUBLE) FROM '{path}'\").fetchall()[0] == (1.0,)
";
    assert_eq!(read(&site(), "parquet", ALL, script), ROWS);
}

#[test]
#[ignore = "needs Python with pandas: tests/run"]
fn pandas_reads_json_lines() {
    let script = "
import glob, os, pandas, sys
for path in sorted(glob.glob(sys.argv[1] + '/*.jsonl')):
    print(os.path.basename(path)[:-6], len(pandas.read_json(path, lines=True)))
";
    assert_eq!(read(&site(), "jsonl", ALL, script), ROWS);
}

#[test]
#[ignore = "needs Python with prometheus_client: tests/run"]
fn a_prometheus_parser_reads_openmetrics() {
    let script = "
import glob, os, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for path in sorted(glob.glob(sys.argv[1] + '/*.om')):
    families = list(parse(open(path).read()))
    points = {family.name: len(family.samples) for family in families}
    print(os.path.basename(path)[:-3], len(families) > 3, points.get('dlrun_sample_cpu_user_us', 0), points.get('dlrun_run', 0))
    for family in families:
        for sample in family.samples:
            assert sample.labels['run_id'] and sample.timestamp, sample
";
    let read = read(
        &site(),
        "openmetrics",
        "runs,usage,timings,gpus,samples",
        script,
    );
    assert_eq!(
        read,
        "gpus True 0 0\nruns True 0 2\nsamples True 10 0\ntimings True 0 0\nusage True 0 0\n"
    );
}
