#!/bin/sh
# Installs the Debian packages that the build and the tests need, and ends at once when they are installed.
# On other systems it names missing libraries, and succeeds if pkg-config and the compiler find everything.
#
#   tools/dependencies.sh          for building and testing
#   tools/dependencies.sh bench    also the peers of the benches: PyTorch with an optimized BLAS, OpenCV
#
# Keep these lists equal to PACKAGES and LDLIBS_ALL in the Makefile.
set -u

packages="gcc make pkg-config libhwloc-dev libjansson-dev libyaml-dev zlib1g-dev libpng-dev libcurl4-openssl-dev libprotobuf-c-dev protobuf-c-compiler libonnx-testdata libcmocka-dev libopenmpi-dev openmpi-bin"
[ "${1:-}" = bench ] && packages="$packages python3-torch libopenblas0-pthread python3-opencv"
modules="hwloc jansson yaml-0.1 zlib libpng libcurl libprotobuf-c cmocka"

fail() {
    echo "dependencies: $*" >&2
    exit 1
}

# Prints the modules that pkg-config and the C compiler cannot find; empty if they find all.
missing_modules() {
    command -v pkg-config >/dev/null 2>&1 || { echo "pkg-config"; return; }
    for module in $modules; do
        pkg-config --exists "$module" || echo "$module"
    done
    command -v "${CC:-cc}" >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 || echo "a C compiler"
}

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    missing=$(missing_modules)
    [ -z "$missing" ] && exit 0
    fail "this is no Debian system; please install:" $missing "(on Debian: $packages)"
fi

# One query for the installed packages; pkg-config may have its new name.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package} \n' $packages pkgconf 2>/dev/null | sed -n 's/^installed //p')
missing=
for package in $packages; do
    case " "$(echo $installed)" " in
    *" $package "*) ;;
    *)
        [ "$package" = pkg-config ] && command -v pkg-config >/dev/null 2>&1 && continue
        missing="$missing $package"
        ;;
    esac
done
[ -z "$missing" ] && exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || fail "please install as root: apt-get install$missing"
    as_root="sudo"
fi
echo "Installing$missing" >&2
log=$(mktemp) || fail "cannot make a temporary file"
trap 'rm -f "$log"' EXIT

apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$log" 2>&1
}

# A failed update (a missing source, no network) matters only if the packages then cannot be installed.
apt update || true
apt install --no-install-recommends $missing ||
    fail "apt-get could not install$missing: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
