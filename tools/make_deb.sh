#!/bin/sh
# Makes Debian packages of a build: the library, the development files, the program, the Python package, and a companion
# for each MPI.
#
#   BUILD=build tools/make_deb.sh FOLDER
#
# A package depends on the libraries that its programs link, by dpkg-shlibdeps; libraries that are loaded only when needed
# are recommended.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$root"
build=${BUILD:-build}
fail() {
    echo "make deb: $*" >&2
    exit 1
}
for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture strip; do
    command -v $tool >/dev/null 2>&1 || fail "$tool is missing; on Debian: apt-get install dpkg-dev binutils"
done
version=$(cat VERSION)
architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
soversion=$(sed -n 's/^SOVERSION := //p' Makefile)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
umask 022

make -s install BUILD="$build" PREFIX=/usr LIBDIR="/usr/lib/$triplet" DESTDIR="$work/all" ||
    fail "make install failed"
for file in "$work/all/usr/bin/brigade" "$work"/all/usr/lib/"$triplet"/*.so.* "$work"/all/usr/lib/"$triplet"/libbrigade_mpi_*.so; do
    [ ! -f "$file" ] || strip --strip-unneeded "$file"
done
strip --strip-debug "$work/all/usr/lib/$triplet/libbrigade.a"
gzip -9n "$work"/all/usr/share/man/man?/*

# take PACKAGE PATH...: moves files of the installation (patterns below /usr) into a package.
take() {
    package=$1
    shift
    for pattern in "$@"; do
        for file in "$work"/all/usr/$pattern; do
            [ -e "$file" ] || [ -L "$file" ] || fail "$package: there is no /usr/$pattern"
            place=$work/$package/usr/${file#"$work"/all/usr/}
            mkdir -p "${place%/*}"
            mv "$file" "$place"
        done
    done
}

# The files that dpkg-shlibdeps reads, because dpkg does not know the library's package.
mkdir -p "$work/debian"
printf 'Source: brigade\n\nPackage: brigade\nArchitecture: any\n' >"$work/debian/control"
printf 'libbrigade %s libbrigade%s (= %s)\n' "$soversion" "$soversion" "$version" >"$work/debian/shlibs.local"

links() { # PACKAGE: the packages of the libraries that its files link, separated by commas
    files=$(find "$work/$1" -type f \( -perm -u+x -o -name '*.so*' \))
    [ -z "$files" ] || (cd "$work" && dpkg-shlibdeps -O -Ldebian/shlibs.local --ignore-missing-info $files 2>"$work/shlibs.log" |
        sed -n 's/^shlibs:Depends=//p')
}

# finish PACKAGE ARCHITECTURE SECTION FIELDS DEPENDS SUMMARY DESCRIPTION: writes the package.
finish() {
    package=$1
    linked=$(links "$package")
    depends=$5${5:+${linked:+, }}$linked
    doc=$work/$package/usr/share/doc/$package
    mkdir -p "$work/$package/DEBIAN" "$doc"
    cp LICENSE "$doc/copyright"
    {
        echo "Package: $package"
        echo "Source: brigade"
        echo "Version: $version"
        echo "Architecture: $2"
        echo "Maintainer: The Brigade developers <brigade@localhost>"
        echo "Section: $3"
        echo "Priority: optional"
        echo "Multi-Arch: no"
        [ -z "$depends" ] || echo "Depends: $depends"
        [ -z "$4" ] || echo "$4"
        echo "Installed-Size: $(du -sk --exclude=DEBIAN "$work/$package" | cut -f 1)"
        echo "Description: $6"
        echo "$7" | sed 's/^/ /'
    } >"$work/$package/DEBIAN/control"
    (cd "$work/$package" && find usr -type f -exec md5sum '{}' ';' | LC_ALL=C sort -k 2 >DEBIAN/md5sums)
    # dpkg's own trigger updates the linker's cache for new libraries.
    if [ -n "$(find "$work/$package" -name 'lib*.so.*' -type f)" ]; then
        echo "activate-noawait ldconfig" >"$work/$package/DEBIAN/triggers"
    fi
    dpkg-deb --root-owner-group --build "$work/$package" "$out/${package}_${version}_$2.deb" >/dev/null
    echo "$out/${package}_${version}_$2.deb"
}

rm -f "$out"/*.deb
library=libbrigade$soversion
lib=lib/$triplet
take "$library" "$lib/libbrigade.so.$soversion"
take libbrigade-dev "include/*" "$lib/libbrigade.a" "$lib/libbrigade.so" "$lib/pkgconfig" "$lib/cmake" "share/man/man3" "share/doc/brigade/examples"
for mpi in openmpi mpich; do
    [ ! -f "$work/all/usr/$lib/libbrigade_mpi_$mpi.so" ] || take "libbrigade-$mpi" "$lib/libbrigade_mpi_$mpi.so"
done
take python3-brigade "lib/python3"
take brigade "bin/*" "share/man/man1" "share/brigade" "share/doc/brigade" "share/bash-completion" "share/zsh" "share/fish"
# Guides and examples are in the same place for both packages of documents.
left=$(find "$work/all" ! -type d)
[ -z "$left" ] || fail "in no package: $left"

finish "$library" "$architecture" libs "Recommends: libcurl4" "" "neural networks split over several devices (library)" \
    "Trains and runs neural networks that do not fit on one device or that run
faster on several: pipelined, sharded, phased, data-parallel, tensor-parallel.
libcurl is loaded when a data set is downloaded."
finish libbrigade-dev "$architecture" libdevel "Suggests: libhwloc-dev, libjansson-dev, libyaml-dev, zlib1g-dev, libpng-dev, libprotobuf-c-dev, cmake, pkg-config" \
    "$library (= $version)" "neural networks split over several devices (development)" \
    "Headers, the static library, pkg-config and CMake files and examples. The
suggested packages are needed to link the static library."
finish brigade "$architecture" science "Recommends: libcurl4
Suggests: libbrigade-openmpi, libbrigade-mpich" "" "neural networks split over several devices (program)" \
    "The program brigade, presets, manual page and guides."
# The package depends on the layout of the library's structs, so both must be of one release.
finish python3-brigade all python "" "python3, python3-numpy, $library (= $version)" "neural networks split over several devices (Python 3)" \
    "Builds, trains and runs networks with NumPy arrays. Nothing in it is compiled:
it calls the library by ctypes."
for mpi in openmpi mpich; do
    [ -d "$work/libbrigade-$mpi" ] || continue
    finish "libbrigade-$mpi" "$architecture" libs "" "" "neural networks split over several devices ($mpi)" \
        "Lets programs that link libbrigade, and the program brigade under mpirun, share
devices among the processes of $mpi."
done
