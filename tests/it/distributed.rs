//! Ranks of a distributed training as groups on this machine.

use serde_json::Value;

use crate::support::TestEnv;

fn job(env: &TestEnv, script: &str, launcher: &str, resources: &str) -> String {
    let more = format!("launcher = \"{launcher}\"\n[resources]\n{resources}\n");
    env.submit(&env.job(script, &more))
}

/// The ranks of a run as its record has them, in order.
fn ranks(env: &TestEnv, run: &str) -> Vec<Value> {
    let shown = env.show(run);
    let nodes = shown["nodes"].as_array().expect("nodes").clone();
    let of = |node: &Value| node["ranks"].as_array().cloned().unwrap_or_default();
    nodes.iter().flat_map(of).collect()
}

#[test]
fn local_nodes_are_groups_of_ranks_and_each_has_its_own_output() {
    let env = TestEnv::new();
    let script = "echo rank $RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $NODE_RANK plan ${DLRUN_PLAN-none} \
                  secret ${DLRUN_GROUP_SECRET-none} threads $OMP_NUM_THREADS";
    let run = job(
        &env,
        script,
        "ddp",
        "nodes = 2\ntasks = 3\ntasks_per_node = 2",
    );
    env.wait_state(&run, "completed");
    let log = |rank: &str| {
        env.dlrun(["logs", &run, "--rank", rank])
            .run()
            .code(0)
            .text()
    };
    for (rank, place) in [
        ("0", "local 0/2 node 0"),
        ("1", "local 1/2 node 0"),
        ("2", "local 0/1 node 1"),
    ] {
        let text = log(rank);
        assert!(
            text.contains(&format!(
                "rank {rank}/3 {place} plan none secret none threads "
            )),
            "{text}"
        );
    }
    let all = env.dlrun(["logs", &run]).run().code(0).text();
    assert!(
        all.contains("rank 0/3") && !all.contains("rank 1/3"),
        "{all}"
    );
    let _ = env
        .dlrun(["logs", &run, "--rank", "3"])
        .run()
        .code(66)
        .warns("no output of a rank 3");
    let numbers: Vec<u64> = ranks(&env, &run)
        .iter()
        .filter_map(|rank| rank["rank"].as_u64())
        .collect();
    assert_eq!(numbers, [0, 1, 2]);
    let threads = ranks(&env, &run)[2]["omp_num_threads"].to_string();
    assert!(
        log("2").contains(&format!(" threads {threads}\n")),
        "{threads}"
    );
    let _ = env.dlrun(["show", &run]).run().code(0).says("ranks");
    let _ = env
        .dlrun(["export", "--what", "ranks", "--format", "jsonl"])
        .run()
        .code(0)
        .says("\"world_size\":3");
}

#[test]
fn rank_that_fails_first_is_the_cause_and_the_others_are_ended() {
    let env = TestEnv::new();
    let script = "if [ $RANK = 1 ]; then printf 'Traceback (most recent call last):\\n  File \"t.py\", line 1\\nValueError: no such layer\\n' >&2; exit 7; fi; exec sleep 600";
    let run = job(
        &env,
        script,
        "ddp",
        "nodes = 2\ntasks_per_node = 1\nwalltime = \"5m\"",
    );
    env.wait_state(&run, "failed");
    let shown = env.show(&run);
    let cause = shown["status"]["cause"]["text"].as_str().expect("a cause");
    assert!(
        cause.starts_with("rank 1 on ") && cause.contains("exit code 7"),
        "{cause}"
    );
    assert!(cause.ends_with("ValueError: no such layer"), "{cause}");
    assert_eq!(shown["status"]["exit"]["code"], 7);
    let ends: Vec<Value> = ranks(&env, &run)
        .iter()
        .map(|rank| rank["exit"].clone())
        .collect();
    assert_eq!(ends[0]["signal"], 15, "{ends:?}");
    env.wait_quiet();
}

#[test]
fn variables_of_the_user_are_kept_and_plan_says_so() {
    let env = TestEnv::new();
    let more = "launcher = \"tensorflow\"\nenv = { TF_CONFIG = \"{}\" }\n[resources]\nnodes = 2\n";
    let file = env.job("echo got $TF_CONFIG", more);
    let planned = env
        .dlrun(["plan", "--scheduler", "local", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(planned["ranks"].as_array().map(Vec::len), Some(2));
    let warnings = planned["warnings"].to_string();
    assert!(
        warnings.contains("TF_CONFIG") && warnings.contains("yours is kept"),
        "{warnings}"
    );
    let run = env.submit(&file);
    env.wait_state(&run, "completed");
    let _ = env.dlrun(["logs", &run]).run().code(0).says("got {}");
}

#[test]
fn workers_and_parameter_servers_end_with_the_chief() {
    let env = TestEnv::new();
    let script =
        "case $TF_CONFIG in *'\"chief\"}'*|*'\"evaluator\"}'*) ;; *) exec sleep 600;; esac";
    let launcher = "launcher = \"tensorflow\"\nparameter_servers = 1\nevaluator = true\n";
    let of = |more: &str, nodes: u32| {
        let resources = format!("[resources]\nnodes = {nodes}\nwalltime = \"5m\"\n");
        env.job(script, &format!("{more}{resources}"))
    };
    let run = env.submit(&of(launcher, 4));
    env.wait_state(&run, "completed");
    let roles: Vec<Value> = ranks(&env, &run)
        .iter()
        .map(|rank| rank["role"].clone())
        .collect();
    assert_eq!(
        roles,
        [
            Value::Null,
            "worker".into(),
            "ps".into(),
            "evaluator".into()
        ]
    );
    env.wait_quiet();

    let refused = |file: &str, why: &str| {
        let _ = env
            .dlrun(["plan", "--scheduler", "local", file])
            .run()
            .code(65)
            .warns(why);
    };
    refused(
        &of(launcher, 3).to_string_lossy(),
        "and here 4 ranks: the job has `tensorflow` and 3",
    );
    let ddp = of(&launcher.replace("tensorflow", "ddp"), 4);
    refused(&ddp.to_string_lossy(), "need the launcher `tensorflow`");
}

#[test]
fn parameter_server_that_fails_ends_the_run() {
    let env = TestEnv::new();
    let script = "case $TF_CONFIG in *'\"ps\"}'*) exit 7;; *) exec sleep 600;; esac";
    let more = "launcher = \"tensorflow\"\nparameter_servers = 1\n[resources]\nnodes = 3\nwalltime = \"5m\"\n";
    let run = env.submit(&env.job(script, more));
    env.wait_state(&run, "failed");
    let cause = env.show(&run)["status"]["cause"]["text"].to_string();
    assert!(
        cause.starts_with("\"the ps on ") && cause.contains("exit code 7"),
        "{cause}"
    );
    env.wait_quiet();
}

#[test]
fn each_launcher_gives_its_variables_to_every_rank() {
    let env = TestEnv::new();
    for (launcher, line, seen) in [
        (
            "horovod",
            "echo $HOROVOD_RANK $HOROVOD_SIZE $HOROVOD_CROSS_RANK",
            "1 2 1",
        ),
        (
            "jax",
            "echo $JAX_PROCESS_ID $SLURM_PROCID $SLURM_NTASKS",
            "1 1 2",
        ),
        ("tensorflow", "echo $TF_CONFIG", "\"index\":1"),
        (
            "deepspeed",
            "echo $RANK $WORLD_SIZE $MASTER_ADDR",
            "1 2 127.0.0.1",
        ),
    ] {
        let run = job(&env, line, launcher, "nodes = 2");
        env.wait_state(&run, "completed");
        let text = env
            .dlrun(["logs", &run, "--rank", "1"])
            .run()
            .code(0)
            .text();
        assert!(text.contains(seen), "{launcher}: {text}");
    }
}

#[test]
fn output_of_a_rank_that_an_agent_starts_is_the_agents() {
    let env = TestEnv::new();
    let _ = env.fake("python3").hook(
        "echo agent $PET_NODE_RANK of $PET_NNODES, $PET_NPROC_PER_NODE ranks; [ $PET_NODE_RANK = 1 ] || { echo > said; exit; }; \
         until [ -e said ]; do sleep 0.02; done; exit 1",
    );
    let run = job(&env, "true", "torchrun", "nodes = 2\ntasks_per_node = 2");
    env.wait_state(&run, "failed");
    let shown = env.dlrun(["show", &run]).run().code(0).text();
    for text in [
        "cause      the agent on ",
        "ranks      4 on ",
        "of CPU time each agent",
        " --rank 2` shows",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let log = |rank: &str| env.dlrun(["logs", &run, "--rank", rank]).run();
    for (rank, agent) in [("0", 0), ("1", 0), ("2", 1), ("3", 1)] {
        let text = log(rank).code(0).text();
        assert!(
            text.contains(&format!("agent {agent} of 2, 2 ranks")),
            "{rank}: {text}"
        );
    }
    let _ = log("4").code(66);
}

#[test]
fn helpers_of_mxnet_end_with_the_workers() {
    let env = TestEnv::new();
    let script = "[ $DMLC_ROLE = worker ] || exec sleep 600";
    let run = job(&env, script, "mxnet", "nodes = 2");
    env.wait_state(&run, "completed");
    let roles: Vec<String> = ranks(&env, &run)
        .iter()
        .filter_map(|rank| rank["role"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(roles.len(), 3, "{roles:?}");
    env.wait_quiet();
}

#[test]
fn helper_of_mxnet_that_fails_is_the_cause() {
    let env = TestEnv::new();
    let script = "[ $DMLC_ROLE = scheduler ] && sleep 0.3 && exit 7; exec sleep 600";
    let run = job(&env, script, "mxnet", "nodes = 2");
    env.wait_state(&run, "failed");
    let shown = env.show(&run);
    let cause = shown["status"]["cause"]["text"].as_str().unwrap_or("");
    assert!(
        cause.starts_with("the scheduler on ")
            && cause.ends_with("failed first: it ended with exit code 7"),
        "{cause}"
    );
    let log = env.dlrun(["logs", &run]).run().code(0).text();
    assert!(
        log.contains("failed first, with exit code 7") && log.contains("warning: the scheduler on"),
        "{log}"
    );
    env.wait_quiet();
}

#[test]
fn keras_on_tensorflow_is_warned_of_before_it_waits() {
    let env = TestEnv::new();
    let warned = |launcher: &str, lines: &str| {
        let more = format!("launcher = \"{launcher}\"\n{lines}\n[resources]\nnodes = 2\n");
        let file = env.job("true", &more);
        let planned = env
            .dlrun(["plan", "--scheduler", "local", "--json"])
            .arg(&file)
            .run();
        planned.code(0).result()["warnings"]
            .to_string()
            .contains("Keras 3 cannot")
    };
    assert!(warned("keras", ""));
    assert!(!warned("keras", "env = { KERAS_BACKEND = \"jax\" }"));
    assert!(!warned("keras", "env = { TF_USE_LEGACY_KERAS = \"1\" }"));
    assert!(!warned("tensorflow", ""));
}

#[test]
fn plan_warns_of_more_ranks_than_cpus_and_of_a_launcher_that_does_not_fit() {
    let env = TestEnv::new();
    let warnings = |lines: &str| {
        let more = format!("launcher = \"ddp\"\n{lines}");
        let file = env.job("true", &more);
        let planned = env
            .dlrun(["plan", "--scheduler", "local", "--json"])
            .arg(&file)
            .run();
        planned.code(0).result()["warnings"].to_string()
    };
    let many = warnings("[resources]\nnodes = 64\ntasks_per_node = 64\n");
    assert!(many.contains("4096 ranks share the"), "{many}");
    let jax =
        warnings("[resources]\nnodes = 2\n[framework]\nname = \"jax\"\n[image]\nnone = true\n");
    assert!(
        jax.contains("no variables that jax reads; `jax` does"),
        "{jax}"
    );
}

/// As much of PyTorch as `check --run` asks for, with a sum that is right where all ranks have the same world.
const TORCH: &str = "\
__version__ = '0-fake'
import os, time
if 'HANGS' in os.environ:
    print(file=open('hangs', 'w'), flush=True)
    time.sleep(600)
class cuda:
    is_available = staticmethod(lambda: False)
class Ones:
    value = 1.0
    def __getitem__(self, at): return self
    def item(self): return self.value
ones = lambda count, device: Ones()
";
const TORCH_DISTRIBUTED: &str = "\
import os
is_available = lambda: True
init_process_group = lambda backend: None
get_world_size = lambda: int(os.environ['WORLD_SIZE']) - int(os.environ.get('LESS', '0'))
def all_reduce(ones): ones.value = float(get_world_size())
barrier = destroy_process_group = lambda: None
";

#[test]
fn check_with_run_tries_the_framework_on_all_ranks() {
    let env = TestEnv::new();
    std::os::unix::fs::symlink("/usr/bin/python3", env.root().join("tools/python3")).expect("ours");
    let site = env.root().join("site/torch");
    std::fs::create_dir_all(site.join("distributed")).expect("ours");
    std::fs::write(site.join("__init__.py"), TORCH).expect("ours");
    std::fs::write(site.join("distributed/__init__.py"), TORCH_DISTRIBUTED).expect("ours");
    let file = env.job(
        "exit 7",
        &format!(
            "launcher = \"ddp\"\n[run.env]\nPYTHONPATH = \"{}\"\n[resources]\nnodes = 2\ntasks_per_node = 2\n",
            site.parent().expect("it has one").display()
        ),
    );
    let file = file.to_string_lossy().into_owned();
    let _ = env
        .dlrun(["check", "--run", &file])
        .run()
        .code(0)
        .says("all 4 ranks connected and their all-reduce is right: torch 0-fake, gloo");
    let wrong = ["check", "--run", &file, "--set", "run.env.LESS=\"1\""];
    let _ = env
        .dlrun(wrong)
        .run()
        .code(10)
        .says("sees a world of 3, and 4 ranks were started");
    let hangs = ["check", "--run", &file, "--set", "run.env.HANGS=\"1\""];
    let checking = env.dlrun(hangs).start();
    env.wait_file("hangs");
    checking.signal(nix::sys::signal::Signal::SIGINT);
    let _ = checking.finish().code(75).warns("was cancelled");
    env.wait_quiet();
    let alone = env
        .job("true", "launcher = \"none\"\n")
        .to_string_lossy()
        .into_owned();
    let _ = env
        .dlrun(["check", "--run", &alone])
        .run()
        .code(64)
        .warns("`run.launcher` is none");
}
