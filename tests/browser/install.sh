#!/usr/bin/env bash
# The npm packages of these tests, as package-lock.json pins them. Without npm or a registry nothing is
# installed; the tests are skipped then, and say so.
set -euo pipefail
cd "$(dirname "$0")"

readonly INSTALLED=node_modules/.installed  # written last: what is older than the lock is not complete
if [ "$INSTALLED" -nt package-lock.json ] && [ "$INSTALLED" -nt .npmrc ]; then exit 0; fi
if ! command -v npm > /dev/null; then exit 0; fi
echo "installing the packages of tests/browser/package-lock.json" >&2
if npm ci --no-progress --loglevel=error >&2; then touch "$INSTALLED"; fi
