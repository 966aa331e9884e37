#!/bin/sh
# tools/dependencies.sh installs the missing packages and no others; the package manager is a fake.
. "$(dirname "$0")/support.sh"

mkdir "$folder/bin"

# fake NAME: makes a program that comes first on the PATH, from the script on stdin.
fake() {
    { echo '#!/bin/sh'; cat; } >"$folder/bin/$1"
    chmod +x "$folder/bin/$1"
}

# All packages except the named ones are installed.
all="gcc make pkg-config libhwloc-dev libjansson-dev libyaml-dev zlib1g-dev libpng-dev libcurl4-openssl-dev libprotobuf-c-dev protobuf-c-compiler libonnx-testdata libcmocka-dev libopenmpi-dev openmpi-bin"
installed_without() {
    {
        for package in $all; do
            case " $* " in *" $package "*) ;; *) echo "echo 'installed $package '" ;; esac
        done
    } | fake dpkg-query
}

run() {
    rm -f "$folder/calls"
    PATH="$folder/bin:$PATH" "$root/tools/dependencies.sh" >"$folder/out" 2>"$folder/err"
    code=$?
}

fake apt-get <<END
echo "\$DEBIAN_FRONTEND \$*" >>"$folder/calls"
END
fake sudo <<'END'
exec "$@"
END

installed_without nothing
run
check "all there: done" test $code -eq 0
check "all there: nothing is called" test ! -e "$folder/calls"
check "all there: nothing is said" test ! -s "$folder/err"

installed_without libhwloc-dev zlib1g-dev
run
check "missing: done" test $code -eq 0
check "missing: update first" test "$(head -n 1 "$folder/calls")" = "noninteractive -q -y update"
check "missing: only these" grep -q 'noninteractive -q -y install .* libhwloc-dev zlib1g-dev$' "$folder/calls"

fake apt-get <<'END'
[ "$3" = update ] || { echo "E: Unable to locate package libhwloc-dev" >&2; exit 100; }
END
run
check "failing: exit code 1" test $code -eq 1
check "failing: says which and why" grep -q 'could not install libhwloc-dev zlib1g-dev: E: Unable to locate' "$folder/err"

fake apt-get <<END
echo "\$DEBIAN_FRONTEND \$*" >>"$folder/calls"
END
installed_without nothing
rm -f "$folder/calls"
PATH="$folder/bin:$PATH" "$root/tools/dependencies.sh" bench >"$folder/out" 2>"$folder/err"
check "bench: PyTorch and a BLAS made for speed" grep -q 'install .* python3-torch libopenblas0-pthread python3-opencv$' "$folder/calls"

# The list must match the Makefile: the modules that it queries with pkg-config, and the libraries that it links.
for module in $(sed -n 's/^PACKAGES := //p' "$root/Makefile") cmocka; do
    check "$module is looked for" grep -q "^modules=.*\b$module\b" "$root/tools/dependencies.sh"
done
finish
