#!/bin/sh
# Unpacks another Debian suite's Ruby beside the installed one, without installing it:
#   tests/rubies.sh 3.3 DIR     Ruby 3.3 of Debian 13 (trixie), a tree to chroot into or to run through its own ld.so
# Prints nothing when the tree is there already. The downloads stay in DIR.apt.
set -eu
version=${1:?usage: rubies.sh VERSION DIR}
root=${2:?usage: rubies.sh VERSION DIR}
case $version in
3.3) suite=trixie ;;
*) echo "rubies.sh: no suite is known for Ruby $version" >&2; exit 2 ;;
esac
[ -e "$root/.complete" ] && exit 0
mirror=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null || true)
mirror=${mirror:-http://deb.debian.org/debian}
apt=$root.apt
rm -rf "$root"
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root/tmp"
root=$(cd "$root" && pwd)
apt=$(cd "$apt" && pwd)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
set -- -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
	-o Dir::Etc::PreferencesParts=/dev/null -o Dir::State::Lists="$apt/lists" \
	-o Dir::Cache::Archives="$apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
	-o Dir::State::status=/dev/null -o Acquire::Languages=none -o APT::Sandbox::User=root \
	-o Acquire::Retries=3
apt-get "$@" update
# status=/dev/null makes apt fetch the whole closure; ruby-dev brings the headers for the tests' C extension.
apt-get "$@" -y --no-install-recommends --download-only install ruby ruby-dev libc6-dbg >/dev/null
for dir in bin sbin lib lib64; do
	mkdir -p "$root/usr/$dir"
	ln -sfn "usr/$dir" "$root/$dir"
done
for deb in "$apt"/archives/*.deb; do
	# keep-directory-symlink: a package that ships /lib must not replace the usrmerge link
	dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"
done
rm -rf "$apt/archives" "$apt/lists"
"${CHROOT:-chroot}" "$root" /usr/bin/ruby -v >/dev/null
touch "$root/.complete"
