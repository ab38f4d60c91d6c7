//! Distributed trainings over the two nodes of a real Torque or OpenPBS: what both must do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{skip, wait_for};

/// Prints what a rank finds, without the other one's name for it.
const RANK: &str = "echo rank $RANK/$WORLD_SIZE on $(uname -n) local $LOCAL_RANK/$LOCAL_WORLD_SIZE at $MASTER_ADDR";

/// A directory that both nodes see, and dlrun in it, which the user starts.
pub(crate) trait Site {
    fn path(&self, name: &str) -> PathBuf;
    fn dlrun(&self, args: &[&str]) -> Output;
    /// What `qstat -f` says of a job.
    fn described(&self, job: &str) -> String;

    /// Hands over a training on two nodes; its run and its job. `run` stands in `[run]`, `resources` in `[resources]`.
    #[track_caller]
    fn train(&self, command: &[&str], run: &str, resources: &str) -> (String, String) {
        let command = json!(command);
        let text = format!(
            "name = \"training\"\n[run]\ncommand = {command}\n{run}\n[image]\nnone = true\n[resources]\nnodes = 2\nwalltime = \"5m\"\n{resources}\n"
        );
        let file = self.path("training.toml");
        fs::write(&file, text).expect("root may");
        let submitted = self.answer(&["submit", "--json", &file.to_string_lossy()]);
        let word = |key: &str| submitted[key].as_str().expect("a text").to_owned();
        (word("run_id"), word("job_id"))
    }

    #[track_caller]
    fn ddp(&self, script: &str, resources: &str) -> (String, String) {
        self.train(&["sh", "-c", script], "launcher = \"ddp\"", resources)
    }

    #[track_caller]
    fn answer(&self, args: &[&str]) -> Value {
        let output = self.dlrun(args);
        let said = String::from_utf8_lossy(&output.stdout);
        let answer = serde_json::from_str::<Value>(&said);
        answer.unwrap_or_else(|_| panic!("{args:?}: {output:?}"))["result"].clone()
    }

    /// Waits for the end; the exit code of `dlrun wait`.
    fn end_of(&self, run: &str) -> Option<i32> {
        self.dlrun(&["wait", run]).status.code()
    }

    fn log(&self, run: &str, rank: u32) -> String {
        let output = self.dlrun(&["logs", run, "--rank", &rank.to_string()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Elements of an array that were held back by its limit start when `dlrun scale` lets more run.
    fn an_array_runs_as_many_elements_as_are_asked_for(&self) {
        let file = self.path("wider.toml");
        let text = "name = \"wider\"\n[run]\ncommand = [\"sleep\", \"60\"]\n[image]\nnone = true\n[resources]\narray = \"0-2%1\"\nwalltime = \"5m\"\n";
        fs::write(&file, text).expect("root may");
        let submitted = self.answer(&["submit", "--json", &file.to_string_lossy()]);
        let run = submitted["run_id"].as_str().expect("an id");
        let run_so_many = |wanted: usize| {
            wait_for(&format!("{wanted} elements that run"), || {
                sleep(Duration::from_millis(500));
                let shown = self.answer(&["show", "--json", run]);
                let elements = shown["elements"].as_array().cloned().unwrap_or_default();
                let running = |element: &&Value| element["state"] == "running";
                elements.iter().filter(running).count() == wanted
            });
        };
        run_so_many(1);
        let scaled = self.answer(&["scale", "--json", run, "2"]);
        assert_eq!(scaled["is_array"], true, "{scaled}");
        run_so_many(2);
        let _ = self.dlrun(&["cancel", run]);
    }

    fn ranks_have_one_table(&self) {
        let (run, _) = self.ddp(RANK, "tasks_per_node = 2");
        assert_eq!(self.end_of(&run), Some(0));
        let logs: Vec<String> = (0..4).map(|rank| self.log(&run, rank)).collect();
        for (rank, log) in logs.iter().enumerate() {
            let (whole, local) = (format!("rank {rank}/4 on"), format!("local {}/2", rank % 2));
            assert!(log.contains(&whole) && log.contains(&local), "{log}");
            assert!(!log.contains("at 127."), "{log}");
        }
        let node = |log: &String| log.split(' ').nth(3).map(str::to_owned);
        assert_eq!(node(&logs[0]), node(&logs[1]));
        assert_ne!(node(&logs[0]), node(&logs[2]));
        let shown = self.answer(&["show", "--json", &run]);
        for at in 0..2 {
            let ranks = shown["nodes"][at]["ranks"].as_array().expect("ranks");
            assert!(
                ranks.iter().all(|rank| rank["exit"]["code"] == 0),
                "{shown}"
            );
            assert_eq!(ranks.len(), 2, "{shown}");
        }
    }

    fn killed_rank_is_the_cause(&self) {
        let script = "if [ $RANK = 3 ]; then sleep 1; kill -9 $$; fi; exec sleep 600";
        let (run, _) = self.ddp(script, "tasks_per_node = 2");
        assert_eq!(self.end_of(&run), Some(10));
        let status = self.answer(&["show", "--json", &run])["status"].clone();
        let cause = status["cause"]["text"].as_str().expect("a text");
        assert!(
            cause.starts_with("rank 3 on ")
                && cause.contains("failed first: it was ended by SIGKILL"),
            "{status}"
        );
    }

    /// The other node's dlrun waits for nobody once its ranks are over.
    /// Begins on one node, is scaled to both, and outlives a time limit there.
    fn elastic_run_outlives_its_time_limit(&self) {
        let script = r#"mkdir -p ckpt; n=0; [ -z "$DLRUN_RESUME_FROM" ] || n=$(cat "$DLRUN_RESUME_FROM")
echo "start $DLRUN_ATTEMPT: world $WORLD_SIZE at $n"
trap 'if [ $RANK = 0 ]; then echo $n > ckpt/new.tmp; mv ckpt/new.tmp ckpt/$n; fi' USR1
while [ $n -lt 40 ]; do sleep 1; n=$((n + 1)); done; echo "end $n""#;
        let command = json!(["sh", "-c", script]);
        let text = format!(
            "name = \"long\"\n[run]\ncommand = {command}\nlauncher = \"ddp\"\n[image]\nnone = true\n[resources]\nnodes = {{ min = 1, max = 2 }}\nwalltime = \"40s\"\n[resume]\ncheckpoints = [\"ckpt/*\"]\nlead = \"20s\"\n[elastic]\n"
        );
        let file = self.path("long.toml");
        fs::write(&file, text).expect("root may");
        let submitted = self.answer(&["submit", "--json", &file.to_string_lossy()]);
        let run = submitted["run_id"].as_str().expect("a run").to_owned();
        let log = || String::from_utf8_lossy(&self.dlrun(&["logs", &run]).stdout).into_owned();
        wait_for("the first start", || {
            log().contains("start 0: world 1 at 0")
        });
        assert!(self.dlrun(&["scale", &run, "2"]).status.success());
        assert_eq!(self.end_of(&run), Some(0), "{}", log());
        let (shown, log) = (self.answer(&["show", "--json", &run]), log());
        assert!(
            log.contains("start 1: world 2 at ") && log.contains("end 40"),
            "{log}"
        );
        assert!(
            shown["attempts"].as_array().expect("a list").len() >= 3,
            "{log}"
        );
    }

    fn other_node_ends_with_the_first(&self) {
        let script = "if [ $RANK = 0 ]; then sleep 1; kill -9 $PPID; fi; exec sleep 600";
        let began = Instant::now();
        let (run, _) = self.ddp(script, "tasks_per_node = 1");
        assert_eq!(self.end_of(&run), Some(10));
        let took = began.elapsed();
        assert!(took < Duration::from_secs(25), "{took:?}");
    }

    fn cancel_ends_all_ranks(&self) {
        let script = "while sleep 0.1; do echo alive; done";
        let (run, _) = self.ddp(script, "tasks_per_node = 2");
        let length = || -> Vec<usize> { (0..4).map(|rank| self.log(&run, rank).len()).collect() };
        wait_for("all ranks to write", || {
            length().iter().all(|length| *length > 0)
        });
        assert!(self.dlrun(&["cancel", &run]).status.success());
        assert_eq!(self.end_of(&run), Some(15));
        let written = length();
        sleep(Duration::from_secs(1));
        assert_eq!(length(), written, "a rank is alive");
        let status = self.answer(&["show", "--json", &run])["status"].clone();
        assert_eq!(status["state"], "cancelled", "{status}");
    }

    fn scheduler_knows_no_secret(&self) {
        let script = "echo $A; tr '\\0' '\\n' < /proc/$PPID/environ | grep ^DLRUN_GROUP_SECRET=; until [ -e go ]; do sleep 0.1; done";
        let run = "launcher = \"ddp\"\nenv = { A = \"sesame\" }";
        let (run, job) = self.train(&["sh", "-c", script], run, "tasks_per_node = 1");
        wait_for("the secret", || self.log(&run, 1).lines().count() == 2);
        let log = self.log(&run, 1);
        let secret = log.lines().nth(1).and_then(|line| line.split('=').nth(1));
        let secret = secret
            .filter(|secret| secret.len() == 32)
            .expect("128 bits");
        let described = self.described(&job).replace("\n\t", "");
        assert!(described.contains("training"), "{described}");
        assert!(
            !described.contains("sesame") && !described.contains(secret),
            "{described}"
        );
        fs::write(self.path("go"), "").expect("root may");
        assert_eq!(self.end_of(&run), Some(0));
    }

    fn two_jobs_stay_apart(&self) {
        let script = format!("sleep 1; {RANK}");
        let jobs = [(); 2].map(|()| self.ddp(&script, "cpus_per_task = 1"));
        for (run, _) in jobs {
            assert_eq!(self.end_of(&run), Some(0));
            for rank in 0..2 {
                let log = self.log(&run, rank);
                assert!(log.contains(&format!("rank {rank}/2")), "{log}");
            }
        }
    }

    fn pytorch_trains(&self, launcher: &str) {
        let variable = "DLRUN_TEST_PYTORCH_PYTHON";
        let Ok(python) = std::env::var(variable) else {
            skip(&format!("{variable} names no Python with PyTorch"));
            return;
        };
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/distributed/pytorch_train.py");
        fs::copy(program, self.path("pytorch_train.py")).expect("root may");
        let run = format!("launcher = \"{launcher}\"");
        let (run, _) = self.train(&[&python, "pytorch_train.py"], &run, "tasks_per_node = 2");
        assert_eq!(self.end_of(&run), Some(0));
        for rank in 0..4 {
            let log = self.log(&run, rank);
            assert!(
                log.contains(&format!("rank {rank} of 4: same weights")),
                "{log}"
            );
        }
        assert!(
            self.log(&run, 0).contains("Epoch 3/3"),
            "rank 0 is the first"
        );
    }
}
