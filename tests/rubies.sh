#!/bin/sh
# The Rubies of tests/rubies.list: unpacks those that are not installed, without installing them and without root.
#   tests/rubies.sh unpack     each below build/rubies/VERSION: a tree to chroot into or to run through its own ld.so
#   tests/rubies.sh header     the list for C: RUBIES(X) is X(3_1, "3.1") and so on, FIRST_RUBY is "3.1"
# Unpacking says nothing of what is there already. What can't be had is told, and said in build/rubies/VERSION.why:
# tests are skipped, with that reason. The downloads stay in VERSION.apt while it goes on.
set -u
cd "$(dirname "$0")/.." || exit 1
list=tests/rubies.list

# unpack SUITE ROOT
unpack() (
	set -eu
	suite=$1 root=$2
	mirror=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null || true)
	mirror=${mirror:-http://deb.debian.org/debian}
	apt=$root.apt
	rm -rf "$root" "$apt"
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root/tmp"
	root=$(cd "$root" && pwd)
	apt=$(cd "$apt" && pwd)
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
	# Nothing is installed, says this status: apt fetches the whole closure. Its lock lies beside it.
	: >"$apt/status"
	set -- -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::PreferencesParts=/dev/null -o Dir::State="$apt" -o Dir::State::Lists="$apt/lists" \
		-o Dir::Cache="$apt" -o Dir::Cache::Archives="$apt/archives" -o Dir::Cache::pkgcache= \
		-o Dir::Cache::srcpkgcache= -o Dir::State::status="$apt/status" -o Acquire::Languages=none \
		-o APT::Sandbox::User=root -o Acquire::Retries=3
	apt-get "$@" update
	# ruby-dev brings the headers for the tests' C extension.
	apt-get "$@" -y --no-install-recommends --download-only install ruby ruby-dev libc6-dbg >/dev/null
	for dir in bin sbin lib lib64; do
		mkdir -p "$root/usr/$dir"
		ln -sfn "usr/$dir" "$root/$dir"
	done
	for deb in "$apt"/archives/*.deb; do
		# keep-directory-symlink: a package that ships /lib must not replace the usrmerge link
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"
	done
	rm -rf "$apt"
	lib=$root/usr/lib/x86_64-linux-gnu
	got=$("$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$root/usr/bin/ruby" --disable-gems -v)
	case $got in
	"ruby ${root##*/}."*) ;;
	*) echo "Debian $suite ships $got" >&2; exit 1 ;;
	esac
	[ "$(id -u)" != 0 ] || "${CHROOT:-chroot}" "$root" /usr/bin/ruby -v >/dev/null
	touch "$root/.complete"
)

unpack_all() {
	mkdir -p build/rubies
	# Two of us at once would take each other's files away.
	exec 9>build/rubies/.lock
	flock 9
	grep -v '^#' $list | while read -r version suite _; do
		root=build/rubies/$version
		[ ! -x "/usr/bin/ruby$version" ] && [ ! -e "$root/.complete" ] || continue
		printf '  %-7s %s\n' RUBY "$version of Debian $suite"
		if unpack "$suite" "$root" >"$root.log" 2>&1 9>&-; then
			rm -f "$root.log" "$root.why"
		else
			why=$(grep -m 1 '^E:' "$root.log" || tail -n 1 "$root.log")
			echo "${why:-unpacking it failed}" >"$root.why"
			echo "rubies.sh: no Ruby $version for the tests: $why; all of it is in $root.log" >&2
		fi
	done
}

header() {
	echo '/* Made of tests/rubies.list. */'
	printf '#define FIRST_RUBY "%s"\n' "$(grep -v '^#' $list | sed -n '1s/ .*//p')"
	printf '#define RUBIES(X)'
	grep -v '^#' $list | while read -r version _; do
		printf ' X(%s, "%s")' "$(echo "$version" | tr . _)" "$version"
	done
	echo
}

case ${1:-} in
unpack) unpack_all ;;
header) header ;;
*) sed -n '2,6s/^# //p' "$0"; exit 2 ;;
esac
