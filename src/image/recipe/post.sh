
# Debian packages, from the site's mirror where it has one.
apt_install() {
    . /etc/os-release
    mkdir -p /etc/apt/apt.conf.d
    printf 'APT::Sandbox::User "root";\nAcquire::Retries "3";\n' > /etc/apt/apt.conf.d/90dlrun
    [ -z "${SSL_CERT_FILE:-}" ] || printf 'Acquire::https::CaInfo "%s";\n' "$SSL_CERT_FILE" >> /etc/apt/apt.conf.d/90dlrun
    apt_mirror= apt_parts=main
    case "$ID" in
        debian) apt_mirror="${apt_mirror_debian:-}" ;;
        ubuntu) apt_mirror="${apt_mirror_ubuntu:-}" apt_parts='main universe' ;;
    esac
    if [ -n "$apt_mirror" ]; then
        rm -f /etc/apt/sources.list.d/*
        echo "deb $apt_mirror $VERSION_CODENAME $apt_parts" > /etc/apt/sources.list
        [ -z "${apt_mirror_debian_security:-}" ] ||
            echo "deb $apt_mirror_debian_security $VERSION_CODENAME-security main" >> /etc/apt/sources.list
    fi
    apt-get update -q
    apt-get install -q -y --no-install-recommends "$@"
    rm -rf /var/lib/apt/lists/* /etc/apt/apt.conf.d/90dlrun
}

# An environment in /opt/dlrun of a Python between two versions.
python_env() {
    if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
        apt_install python3 python3-venv ca-certificates
    fi
    python3 -c 'import sys; v = lambda t: [int(n) for n in t.split(".")]; sys.exit(not v(sys.argv[1]) <= list(sys.version_info[:2]) <= v(sys.argv[2]))' "$1" "$2" || {
        echo "the base has $(python3 --version), and this recipe needs Python $1 to $2" >&2
        exit 1
    }
    python3 -m venv /opt/dlrun
    PATH="/opt/dlrun/bin:$PATH"
    export PATH
    pip install -q 'setuptools<81' wheel
}

# A C++ compiler and Python's headers.
cxx() {
    command -v g++ > /dev/null || apt_install g++ libc6-dev
    python3 -c 'import os, sysconfig; open(os.path.join(sysconfig.get_paths()["include"], "Python.h"))' 2> /dev/null ||
        apt_install python3-dev
}

# An MPI library with its commands, from the base's distribution.
mpi() {
    case "$1" in
        openmpi) apt_install openmpi-bin libopenmpi-dev ;;
        mpich) apt_install mpich libmpich-dev ;;
    esac
}

# A release of a repository with its submodules, if it is the commit that it should be.
fetch_source() {
    mkdir -p "$4"
    git init -q "$4"
    cd "$4"
    git remote add origin "$git_host/$1"
    git fetch -q --depth 1 origin "refs/tags/$2"
    git checkout -q FETCH_HEAD
    case "$(git rev-parse HEAD)" in
        "$3"*) ;;
        *) echo "$2 of $1 is the commit $(git rev-parse HEAD), and should be $3" >&2; exit 1 ;;
    esac
    git submodule update -q --init --recursive --depth 1
}

# What is in the environment, for people who look into the image.
finish() {
    pip freeze > /opt/dlrun/requirements.txt
    rm -rf /opt/dlrun-build /root/.cache
}
