//! Requests as people write them, against one catalogue.

use std::fs;
use std::path::Path;

use crate::support::TestEnv;

/// One line of the table.
struct Request<'a> {
    job: String,
    expected: Vec<&'a str>,
}

fn read(line: &str) -> Request<'_> {
    let mut fields = line.splitn(4, '|').map(str::trim);
    let mut field = || fields.next().unwrap_or_default();
    let (name, version, keys, expected) = (field(), field(), field(), field());
    let mut job = format!("[framework]\nname = {name:?}\n");
    if !version.is_empty() {
        job += &format!("version = {version:?}\n");
    }
    let key = |wanted: &str| {
        keys.split_whitespace()
            .find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == wanted))
            .map(|(_, value)| value)
    };
    if let Some(compiler) = key("compiler") {
        job += &format!("compiler = {compiler:?}\n");
    }
    if let Some(package) = key("packages") {
        job += &format!("[image]\npackages = [{package:?}]\n");
    }
    job += "[resources]\n";
    for (from, to) in [("gpus", "gpus_per_node"), ("queue", "queue")] {
        if let Some(value) = key(from) {
            job += &format!("{to} = {value:?}\n");
        }
    }
    Request {
        job,
        expected: expected.split('|').collect(),
    }
}

/// What came of it, in the words of the table.
fn answer(env: &TestEnv, request: &Request<'_>) -> String {
    let file = env.job("true", &request.job);
    let done = env.dlrun(["plan", "--json", "--no-check"]).arg(&file).run();
    if !done.status.success() {
        return format!(
            "error {}",
            String::from_utf8_lossy(&done.stdout).replace("\\\"", "\"")
        );
    }
    let plan = done.result();
    match plan["plan"]["image"]["name"].as_str() {
        Some(name) => name.to_owned(),
        None if String::from_utf8_lossy(&done.stdout).contains("no image is chosen") => {
            "warn".to_owned()
        }
        None => "host".to_owned(),
    }
}

#[test]
fn requests_as_people_write_them_get_the_image_that_they_mean() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/catalogue/requests");
    let config = env.root().join("home/config/dlrun");
    fs::create_dir_all(config.join("images.d")).expect("a directory");
    for (from, to) in [
        ("images.toml", "images.d/images.toml"),
        ("dlrun.toml", "dlrun.toml"),
    ] {
        fs::copy(dir.join(from), config.join(to)).expect("a file");
    }
    let table = fs::read_to_string(dir.join("requests.txt")).expect("the table");
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let request = read(line);
        let answer = answer(&env, &request);
        let is_right = |expected: &&str| match expected.strip_prefix("error ") {
            Some(part) => answer.starts_with("error ") && answer.contains(part),
            None => answer == **expected,
        };
        if !request.expected.iter().any(is_right) {
            wrong.push(format!("{line}\n    is answered by: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
