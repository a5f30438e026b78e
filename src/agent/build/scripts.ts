/** The scripts that builder VMs run. They are constants: values from the repository are passed in the environment. */
import { leaveOut } from './ignored-files.ts'
import { unpackBehind } from './more-archives.ts'
import { namePrivateBases } from './private-bases.ts'
import { python } from './python-script.ts'
import { installPackages, systemFiles } from './system-files.ts'
import { deno, fetchBeside, fetchGo, npm, rust } from './toolchain-scripts.ts'
import { trustScript } from './trust.ts'

/**
 * Shell function: `disk <serial>` prints the device of a build drive (`RawDrive`). For a hypervisor that assigns its
 * own serials, the kernel command line contains `mote.<serial>=<actual serial>`.
 */
export const findDisk = `disk() {
  # On gVisor, drives are files.
  if [ -e "/.mote-drives/$1" ]; then echo "/.mote-drives/$1"; return; fi
  serial=$1
  for word in $(cat /proc/cmdline); do
    case $word in "mote.$1="*) serial=\${word#*=} ;; esac
  done
  for one in /sys/block/vd*; do
    if [ "$(cat "$one/serial")" = "$serial" ]; then echo "/dev/\${one##*/}"; return; fi
  done
  echo "the disk $1 is missing" >&2; exit 70
}
`

/**
 * Shell functions: `step <line> [<exports>]` runs a command line and prints its duration, even if it fails. `steps
 * <lines>` runs several command lines in order, with the variables that `$GIVEN` exports; the first failure ends the
 * build.
 */
export const runStep = `step() {
  echo "$1"
  started=$(date +%s)
  code=0
  sh -ec "\${2:-}$1" < /dev/null || code=$?
  verb=took
  if [ "$code" != 0 ]; then verb="failed after"; fi
  echo "$1: $verb $(($(date +%s) - started)) s"
  if [ "$code" != 0 ]; then exit "$code"; fi
}
steps() {
  printf '%s\\n' "$1" | while IFS= read -r line; do
    if [ -n "$line" ]; then step "$line" "\${GIVEN:-}"; fi
  done
}
`

/**
 * Shell functions `unpack` and `finish`: read the tar archive on the source disk, and write the result to the output
 * disk. `tar -m` gives sources the current time, because Cargo and make only compile files newer than their cached
 * results. `mote.end` marks the end of the result. Disks are found by serial.
 */
const commands = `set -eu
${findDisk}${leaveOut}unpack() { mkdir -p "$1"; tar -xmf "$(disk source)" -C "$1"; leave_out "$1"; }
finish() { : > /out/mote.end; tar --numeric-owner -cf "$(disk output)" -C /out "$@" mote.end; sync; }
${runStep}mkdir -p /out
`
export const prelude = commands + unpackBehind + trustScript + installPackages + fetchBeside
/**
 * Shell functions for tool images that have only busybox, whose tar neither has nor needs the option --numeric-owner.
 */
const smallPrelude = commands.replace('tar --numeric-owner ', 'tar ')
export const cache = `mkdir -p /cache
# On gVisor, the host has mounted the cache disk.
if [ -d /.mote-volumes/cache ]; then rmdir /cache; ln -s /.mote-volumes/cache /cache
else mount -t ext4 "$(disk cache)" /cache 2>/dev/null || echo "the cache cannot be used for this build"; fi
`

/** Unpacks the source to /src, and runs the install and build commands in that directory. */
export const buildInSrc = `unpack /src
cd /src
steps "$INSTALL"
steps "$BUILD"
`

/** Installs the build tools that CMake and Meson projects need besides the image's compilers. */
const cppTools = `export HOME=/root PIP_CACHE_DIR=/cache/pip PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
/usr/bin/python3 -m venv --without-pip /opt/mote/tools
step '/usr/bin/python3 -m pip --python /opt/mote/tools/bin/python install --quiet --timeout 15 cmake ninja meson'
export PATH="/opt/mote/tools/bin:$PATH"
`
/**
 * Writes secrets to files for the steps of a Dockerfile. Cached layers do not record the secret values they were built
 * with, so the cache keeps a salted hash of all values: if the hash differs, the cached layers are deleted.
 */
export const keepSecrets = `chmod 700 /run/mote-secrets
for name in $SECRETS; do eval "printf '%s' \\"\\$MOTE_GIVEN_$name\\"" > "/run/mote-secrets/$name"; done
mark=/cache/containers/secrets
if [ ! -e "$mark.salt" ]; then head -c 32 /dev/urandom > "$mark.salt"; fi
now=$(for name in $SECRETS; do echo "$name"; cat "$mark.salt" "/run/mote-secrets/$name"; done | sha256sum)
if [ "$now" != "$(cat "$mark" 2>/dev/null)" ]; then
  if [ -e "$mark" ]; then echo "a secret has changed: building without cached layers"; rm -rf /cache/containers/storage; fi
  echo "$now" > "$mark"
fi
`

export const scripts = {
  static: `${smallPrelude}unpack /src
if [ ! -d "/src/$DIR" ]; then echo "there is no directory $DIR"; exit 1; fi
mkdir -p /out/app
cp -a "/src/$DIR" /out/app/www
finish app
`,
  node: `${prelude}${cache}${npm}${buildInSrc}
steps "$PRUNE"
if [ -e $toolchain/complete ]; then rm -rf .mote; cp -a $toolchain .mote; rm .mote/complete; fi
mv /src /out/app
${systemFiles}finish app $SYSTEM
`,
  'node-static': `${prelude}${cache}${npm}${buildInSrc}
if [ ! -d "$DIR" ]; then echo "the build left no directory $DIR"; exit 1; fi
mkdir -p /out/app
mv "$DIR" /out/app/www
finish app
`,
  python: `${prelude}${cache}${python}
mv /app /out/app
${systemFiles}finish app $SYSTEM
`,
  go: `${prelude}${cache}${fetchGo}export HOME=/root GOCACHE=/cache/go GOMODCACHE=/cache/gomod GOFLAGS=-modcacherw CGO_ENABLED=0 GOTOOLCHAIN=local
if [ ! -d /cache/go ] && [ -d "$SEED" ]; then rm -rf /cache/go.new; cp -a "$SEED" /cache/go.new && mv /cache/go.new /cache/go; fi
unpack /src
cd /src
echo "using $(go version)"
steps "$INSTALL"
steps "$BUILD"
mv /src /out/app
finish app
`,
  rust: `${prelude}${cache}${rust}mv /src /out/app
${systemFiles}finish app $SYSTEM
`,
  cpp: `${prelude}${cache}${cppTools}unpack /src
cd /src
steps "$INSTALL"
steps "$BUILD"
cd /
mv /src /out/app
${systemFiles}finish app $SYSTEM
`,
  deno: `${prelude}${cache}${deno}unpack /app
mkdir -p /app/.mote/bin
cp /opt/mote/deno/node_modules/@deno/linux-x64-glibc/deno /app/.mote/bin/deno
export PATH="/app/.mote/bin:$PATH" DENO_DIR=/app/.mote/deno DENO_NO_UPDATE_CHECK=1
cd /app
echo "using $(deno --version | head -n 1)"
steps "$INSTALL"
steps "$BUILD"
cd /
mv /app /out/app
${systemFiles}finish app $SYSTEM
`,
  shell: `${prelude}unpack /src
cd /src
steps "$INSTALL"
steps "$BUILD"
cd /
mv /src /out/app
${systemFiles}finish app $SYSTEM
`,
  dockerfile: `${prelude}${cache}export HOME=/root TMPDIR=/var/tmp BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
unpack /src
mkdir -p /cache/containers /run/mote-secrets
${keepSecrets}printf '%s' "$REGISTRIES" > /etc/containers/registries.conf.d/mote.conf
buildah="buildah --storage-driver vfs --root /cache/containers/storage --runroot /run/containers"
# Steps of a Dockerfile trust the builder's authorities if their image reads the same file, as Debian, Alpine and Go do.
volume=
if [ -n "\${MOTE_CA:-}" ]; then volume="--volume $SSL_CERT_FILE:$SSL_CERT_FILE:ro"; fi
${namePrivateBases}step "$buildah bud $volume --layers $OPTIONS --format oci -f \\"/src/\\$FILE\\" -t mote-build /src"
mkdir -p /out
step "$buildah push -q mote-build oci:/out/image:built"
finish image
`,
} as const
