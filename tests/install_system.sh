#!/usr/bin/env bash
# What the tests need beyond Python: a WebGPU device without a GPU, a browser, Node.js and a C compiler.
# Installs what is missing, on Debian and Ubuntu, as root or where sudo asks for no password. Elsewhere the
# tests that need it are skipped, and say so.
set -euo pipefail

readonly OLDEST_MESA=24  # of bookworm's 22.3 Dawn wants no part

if [ "${HUBPUBLISH_TEST_SYSTEM:-install}" = "leave" ]; then exit 0; fi
if ! command -v apt-get > /dev/null || ! grep -Eqs '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release; then exit 0; fi

if [ "$(id -u)" = 0 ]; then
  as_root() { env DEBIAN_FRONTEND=noninteractive "$@"; }
elif sudo -n true 2> /dev/null; then
  as_root() { sudo -n env DEBIAN_FRONTEND=noninteractive "$@"; }
else
  exit 0
fi

major() {  # of the installed version of a package; 0 where it is not installed
  { dpkg-query -W -f='${Version}' "$1" 2> /dev/null || echo 0; } | sed -E 's/^[0-9]+://; s/[^0-9].*//'
}

wanted=()
command -v cc > /dev/null || command -v gcc > /dev/null || wanted+=(gcc libc6-dev)
command -v node > /dev/null || wanted+=(nodejs)
command -v npm > /dev/null || wanted+=(npm)
[ -n "$(command -v chromium chromium-browser)" ] || wanted+=(chromium)
ldconfig -p | grep -q 'libvulkan\.so\.1' || wanted+=(libvulkan1)
driver=()
mesa=$(major mesa-vulkan-drivers)
if [ "${mesa:-0}" -lt "$OLDEST_MESA" ]; then driver=(mesa-vulkan-drivers); fi
if [ "${#wanted[@]}" = 0 ] && [ "${#driver[@]}" = 0 ]; then exit 0; fi

echo "installing ${wanted[*]} ${driver[*]}" >&2
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
cp /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources "$sources" 2> /dev/null || true
chmod -R a+rX "$sources"
apt() {  # with the sources of this machine and those added here: nothing in /etc/apt changes
  as_root apt-get --quiet=2 -o Dir::Etc::SourceParts="$sources" -o APT::Get::List-Cleanup=0 "$@" > /dev/null
}

apt update
if [ "${#wanted[@]}" -gt 0 ]; then apt install --yes --no-install-recommends "${wanted[@]}"; fi
if [ "${#driver[@]}" -gt 0 ]; then
  from=()
  if [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ]; then
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | awk '$2 == "bookworm" && !uri { uri = $1 } END { print uri }')
    echo "deb ${mirror:?no mirror found for bookworm} bookworm-backports main" > "$sources/hubpublish.list"
    from=(--target-release bookworm-backports)
    apt update
  fi
  apt install --yes --no-install-recommends "${from[@]}" "${driver[@]}"
fi
