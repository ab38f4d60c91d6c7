# Runs in an image, by Python 2.7 or any 3, and tells what it finds: one line of JSON a finding, behind the marker.
# What is tried is said before it is tried, so that a crash is known by what it cut off.
import ctypes
import json
import os
import sys

MARK, WANTED, GPUS = sys.argv[1], sys.argv[2], sys.argv[3] == "gpus"
MODULES = [
    ("tensorflow", "tensorflow"),
    ("pytorch", "torch"),
    ("jax", "jax"),
    ("mxnet", "mxnet"),
    ("keras", "keras"),
]
# Frameworks write what they like to standard output, and may close it.
OUT = os.dup(1)


def say(step, **fields):
    fields["step"] = step
    text = "\n%s %s\n" % (MARK, json.dumps(fields))
    os.write(OUT, text.encode("utf-8", "replace"))


def words(error):
    text = "%s: %s" % (type(error).__name__, error)
    return " ".join(text.split())[:600]


def attempt(what, work):
    """Runs one step; what goes wrong in it is a finding."""
    say("begin", what=what)
    try:
        return work()
    except BaseException as error:
        say("fault", what=what, why=words(error))
        return None


def version(name, found):
    if found:
        say("version", name=name, version=str(found)[:100])


def built(**kinds):
    say("built", kinds=sorted(kind for kind in kinds if kinds[kind]))


def installed(module):
    try:
        from importlib.util import find_spec
    except ImportError:
        import pkgutil

        return pkgutil.find_loader(module) is not None
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def distribution(name):
    """The version of an installed package, or None."""
    try:
        from importlib.metadata import version as find
    except ImportError:
        return None
    try:
        return find(name)
    except Exception:
        return None


def has_cublas(major):
    if distribution("nvidia-cublas-cu%s" % major):
        return True
    try:
        return bool(ctypes.CDLL("libcublas.so.%s" % major))
    except OSError:
        return False


def expect(value, wanted):
    if abs(float(value) - wanted) > 1e-3:
        raise ValueError("it computed %s instead of %s" % (value, wanted))


class TensorFlow:
    def __init__(self, tf):
        self.tf = tf

    def built(self):
        test = self.tf.test
        info = getattr(self.tf.sysconfig, "get_build_info", dict)()
        # The package of the index is built with CUDA for everybody; what it computes on, its libraries decide.
        major = str(info.get("cuda_version") or "").partition(".")[0]
        cuda = test.is_built_with_cuda() and (not major or has_cublas(major))
        built(nvidia=cuda, amd=getattr(test, "is_built_with_rocm", bool)())
        version("cuda", info.get("cuda_version"))
        version("rocm", info.get("rocm_version"))

    def compilers(self):
        yield "xla", self.xla


    def work(self, a):
        return self.tf.reduce_sum(self.tf.matmul(a, a))

    def xla(self):
        tf = self.tf
        if tf.__version__.startswith("1."):
            from tensorflow.python.compiler.xla import xla

            made = xla.compile(self.work, inputs=[tf.ones((2, 2))])
            with tf.compat.v1.Session() as session:
                return expect(session.run(made)[0], 8)
        try:
            made = tf.function(self.work, jit_compile=True)
        except TypeError:
            # Its name before TensorFlow 2.5.
            made = tf.function(self.work, experimental_compile=True)
        expect(made(tf.ones((2, 2))), 8)



    def gpus(self):
        config = self.tf.config
        listed = getattr(config, "list_physical_devices", None) or config.experimental.list_physical_devices
        count = len(listed("GPU"))
        if count and not self.tf.__version__.startswith("1."):
            with self.tf.device("/GPU:0"):
                expect(self.work(self.tf.ones((2, 2))), 8)
        return count


class PyTorch:
    def __init__(self, torch):
        self.torch = torch

    def built(self):
        cuda, rocm = (getattr(self.torch.version, name, None) for name in ("cuda", "hip"))
        built(nvidia=cuda, amd=rocm)
        version("cuda", cuda)
        version("rocm", rocm)
        cpu = getattr(getattr(self.torch.backends, "cpu", None), "get_cpu_capability", None)
        if cpu:
            say("note", text="PyTorch computes with %s here" % cpu())

    def compilers(self):
        if hasattr(self.torch, "compile"):
            yield "inductor", self.inductor
        if installed("torch_xla"):
            yield "xla", self.xla


    def inductor(self):
        from shutil import which

        compiler = os.environ.get("CXX") or "g++"
        if not which(compiler):
            raise RuntimeError("it needs a C++ compiler, and `%s` is not in the image" % compiler)
        made = self.torch.compile(lambda a: self.torch.mm(a, a).cos().sum(), backend="inductor")
        expect(made(self.torch.zeros((2, 2))), 4)

    def xla(self):
        import torch_xla.core.xla_model as xm

        a = self.torch.ones((2, 2), device=xm.xla_device())
        expect(self.torch.mm(a, a).sum().item(), 8)

    def gpus(self):
        count = self.torch.cuda.device_count()
        if count:
            expect(self.torch.ones(2, device="cuda").sum().item(), 2)
        return count


class Jax:
    def __init__(self, jax):
        self.jax = jax

    def built(self):
        # The plugins name the major version alone; jaxlib had all in its own version before there were plugins.
        jaxlib = distribution("jaxlib") or ""
        version("jaxlib", jaxlib)
        cuda = jaxlib.partition("+cuda")[2].partition(".")[0]
        rocm = jaxlib.partition("+rocm")[2]
        for major in ("11", "12", "13", "14"):
            if distribution("jax-cuda%s-plugin" % major):
                cuda = major
        for major in ("60", "7", "8"):
            if distribution("jax-rocm%s-plugin" % major):
                rocm = major[0]
        built(nvidia=cuda, amd=rocm)
        version("cuda", cuda)
        version("rocm", rocm)

    def compilers(self):
        yield "xla", self.xla

    def xla(self):
        numpy = self.jax.numpy
        expect(self.jax.jit(lambda a: numpy.dot(a, a).sum())(numpy.ones((2, 2))), 8)

    def gpus(self):
        return len([device for device in self.jax.devices() if device.platform != "cpu"])





class Keras:
    """Computes with another framework."""

    def __init__(self, keras):
        backend = keras.backend.backend()
        module, of = {"tensorflow": ("tensorflow", TensorFlow), "torch": ("torch", PyTorch), "jax": ("jax", Jax)}[backend]
        below = __import__(module)
        self.below = of(below)
        version({"torch": "pytorch"}.get(backend, backend), below.__version__)
        say("note", text="Keras computes with %s" % backend)
        self.built, self.compilers, self.gpus = self.below.built, self.below.compilers, self.below.gpus


class Other:
    """What dlrun knows by its name only."""

    def __init__(self, _):
        pass

    def built(self):
        pass

    def compilers(self):
        return []

    def gpus(self):
        return None


WAYS = {"tensorflow": TensorFlow, "pytorch": PyTorch,"jax": Jax, "keras": Keras}


def probe_mpi():
    for abi in ("libmpi.so.40", "libmpi.so.12", "libmpi.so.20", "libmpi.so"):
        try:
            ctypes.CDLL(abi)
        except OSError:
            continue
        return say("mpi", abi=abi)


def probe_framework(name, module):
    found = attempt("import", lambda: __import__(module))
    if found is None:
        return
    version(name, getattr(found, "__version__", None) or distribution(module))
    way = attempt("backend", lambda: WAYS.get(name, Other)(found))
    if way is None:
        return
    attempt("build", way.built)
    if GPUS:
        count = attempt("gpus", way.gpus)
        if count is not None:
            say("gpus", count=count)
    for compiler, work in attempt("compilers", lambda: list(way.compilers())) or []:

        def compiled():
            work()
            say("compiled", name=compiler)

        attempt("compile " + compiler, compiled)


def main():
    import platform

    say("python", version=platform.python_version(), arch=os.uname()[4], path=sys.executable or "")
    there = [(name, module) for name, module in MODULES if installed(module)]
    if WANTED:
        module = dict(MODULES).get(WANTED, WANTED.replace("-", "_"))
        there = [(WANTED, module)] if installed(module) else []
    say("installed", names=[name for name, _ in there])
    if there:
        probe_framework(*there[0])
    version("numpy", distribution("numpy"))
    attempt("mpi", probe_mpi)
    say("complete")
    return 0 if there else 3


code = main()
sys.stdout.flush()
# Threads and exit handlers of a framework must not keep it.
os._exit(code)
