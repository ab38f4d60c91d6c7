# What `dlrun check --run` starts in place of a training: one all-reduce of the framework, as the ranks of the job would do it.
import importlib.util, json, os, sys, threading, time

LAUNCHER, SECONDS = sys.argv[1], int(sys.argv[2])
# MXNet's scheduler and servers start the same program, become what they are in its import, and write where rank 0 does.
HELPER = os.environ.get("DMLC_ROLE", "worker") != "worker"
PAUSE = 5  # the first rank that ends in failure ends the others, which may be about to say the same
SMALL, LARGE = 1, 4 << 20  # numbers of 4 bytes
said = {"stage": "start", "python": sys.executable}


def say(error=None):
    if HELPER:
        return
    if error:
        said["error"] = error
    sys.stdout.write("\ndlrun-check " + json.dumps(said) + "\n")
    sys.stdout.flush()


def at(stage, **facts):
    """The last thing that a rank says stands: one that is ended has said what it did."""
    said.update(facts, stage=stage)
    say()


def late():
    say("no answer within %d s" % SECONDS)
    time.sleep(PAUSE)
    os._exit(3)


def measure(all_reduce):
    """all_reduce(n) gives one number of the sum of n ones from each rank."""
    at("all-reduce")
    said["sum"] = float(all_reduce(SMALL))
    for size, name in ((SMALL, "small_seconds"), (LARGE, "large_seconds")):
        all_reduce(size)
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            all_reduce(size)
            times.append(time.perf_counter() - begun)
        said[name] = sorted(times)[2]
    said["large_bytes"] = 4 * LARGE


def device_of(torch, local):
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    said["gpus"] = count
    if not count:
        return "cpu"
    device = local % count
    torch.cuda.set_device(device)
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    said["device"] = str(uuid) if uuid else "%s of %s" % (device, os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    return "cuda:%d" % device


def with_torch():
    import torch
    import torch.distributed as dist

    at("initialise", framework="torch " + torch.__version__)
    if not dist.is_available():
        raise RuntimeError("this torch is built without torch.distributed")
    device = device_of(torch, int(os.environ.get("LOCAL_RANK", "0")))
    backend = "nccl" if device != "cpu" and dist.is_nccl_available() else "gloo"
    said["backend"] = backend
    dist.init_process_group(backend)
    said["world"] = dist.get_world_size()

    def all_reduce(count):
        ones = torch.ones(count, device=device if backend == "nccl" else "cpu")
        dist.all_reduce(ones)
        return ones[0].item()

    measure(all_reduce)
    dist.barrier()
    dist.destroy_process_group()


def with_tensorflow():
    import tensorflow as tf

    at("initialise", framework="tensorflow " + tf.__version__)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    said["gpus"] = len(tf.config.list_physical_devices("GPU"))
    said["world"] = max(1, len(cluster.get("worker", [])) + len(cluster.get("chief", [])))
    replicas = strategy.num_replicas_in_sync
    said["backend"] = "%d replicas" % replicas

    @tf.function
    def step(count):
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([count]))

    def all_reduce(count):
        found = strategy.run(step, args=(tf.constant(count),))
        local = strategy.experimental_local_results(found)
        return float(local[0][0]) * said["world"] / replicas

    measure(all_reduce)


def with_jax():
    import jax

    at("initialise", framework="jax " + jax.__version__)
    jax.distributed.initialize()

    said.update(world=jax.process_count(), backend=jax.default_backend())
    said["gpus"] = len(jax.local_devices()) if jax.default_backend() == "gpu" else 0

    add = jax.pmap(lambda ones: jax.lax.psum(ones, "all"), axis_name="all")

    def all_reduce(count):
        found = add(jax.numpy.ones((jax.local_device_count(), count)))
        return float(found[0, 0]) * jax.process_count() / jax.device_count()

    measure(all_reduce)


def with_horovod():
    import horovod

    try:
        import torch
        import horovod.torch as hvd

        said["framework"] = "horovod with torch " + torch.__version__
        make = lambda count: torch.ones(count)
        first = lambda found: found[0].item()
    except ImportError:
        import tensorflow as tf
        import horovod.tensorflow as hvd

        said["framework"] = "horovod with tensorflow " + tf.__version__
        make = lambda count: tf.ones([count])
        first = lambda found: float(found[0])
    at("initialise")
    hvd.init()
    nccl = bool(getattr(hvd, "nccl_built", lambda: 0)())
    said.update(world=hvd.size(), nccl=nccl, backend="gloo" if hvd.gloo_enabled() else "mpi")
    measure(lambda count: first(hvd.allreduce(make(count), name="check%d" % count, op=hvd.Sum)))


def with_mxnet():
    import mxnet as mx

    at("initialise", framework="mxnet " + mx.__version__, backend="dist_sync")
    store = mx.kv.create("dist_sync")
    said["world"] = store.num_workers
    for count in (SMALL, LARGE):
        store.init(str(count), mx.nd.zeros(count))

    def all_reduce(count):
        found = mx.nd.zeros(count)
        store.push(str(count), mx.nd.ones(count))
        store.pull(str(count), out=found)
        return found[0].asscalar()

    measure(all_reduce)


KERAS = {"jax": with_jax, "torch": with_torch}
CHECKS = {
    "tensorflow": with_tensorflow,
    "jax": with_jax,
    "horovod": with_horovod,
    "mxnet": with_mxnet,
    "keras": KERAS.get(os.environ.get("KERAS_BACKEND", ""), with_tensorflow),
}

# A signal's handler would wait for the library to come back, and it may not.
timer = threading.Timer(SECONDS, late)
timer.daemon = True
if not HELPER:
    timer.start()
try:
    at("import")
    if LAUNCHER in ("accelerate", "deepspeed", "keras") and not importlib.util.find_spec(LAUNCHER):
        raise ModuleNotFoundError("No module named '%s'" % LAUNCHER)
    CHECKS.get(LAUNCHER, with_torch)()
    at("end")
except BaseException as error:
    say("%s: %s" % (type(error).__name__, (str(error).splitlines() or [""])[0][:300]))
    if not isinstance(error, SystemExit):
        time.sleep(PAUSE)
    raise
