# Looks for Python in an image and starts the probe with it. Words: marker, framework, `gpus` or `none`, the probe.
# What counts is on lines that begin with the marker.
mark=$1 framework=$2 gpus=$3 program=$4
# Nothing of a home directory, no files in the image, and GPUs are left to those who work on them.
PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 TF_CPP_MIN_LOG_LEVEL=2
TF_FORCE_GPU_ALLOW_GROWTH=true XLA_PYTHON_CLIENT_PREALLOCATE=false
export PYTHONNOUSERSITE PYTHONDONTWRITEBYTECODE TF_CPP_MIN_LOG_LEVEL
export TF_FORCE_GPU_ALLOW_GROWTH XLA_PYTHON_CLIENT_PREALLOCATE
printf '\n%s {"step":"shell"}\n' "$mark"
for name in python3 python; do
    command -v "$name" >/dev/null 2>&1 || continue
    printf '\n%s {"step":"interpreter","name":"%s"}\n' "$mark" "$name"
    "$name" -s -u -c "$program" "$mark" "$framework" "$gpus" </dev/null
    code=$?
    printf '\n%s {"step":"ended","code":%d}\n' "$mark" "$code"
    # 3: the framework is not there; the other Python may have it.
    [ "$code" = 3 ] || break
done
exit 0
