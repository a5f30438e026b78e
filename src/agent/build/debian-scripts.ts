/** Build scripts for PHP, Ruby and Elixir, whose toolchains come from Debian. */
import { buildInSrc, cache, prelude } from './scripts.ts'
import { npm } from './toolchain-scripts.ts'
import { systemFiles } from './system-files.ts'

const finish = `cd /
mv /src /out/app
${systemFiles}finish app $SYSTEM
`
/** Installs Node if the project has assets that Node builds. */
const assets = `if [ -n "\${NODE_PACKAGE:-}" ]; then
${npm}fi
`

export const debianScripts = {
  php: `${prelude}${cache}export HOME=/root COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_CACHE_DIR=/cache/composer COMPOSER_NO_INTERACTION=1
${assets}${buildInSrc}# Only the build of the assets needs it.
rm -rf node_modules
${finish}`,
  // `BUNDLE_VERSION=system` uses Debian's Bundler for lock files of any Bundler version. Gems are installed below the
  // app.
  ruby: `${prelude}${cache}export HOME=/root BUNDLE_PATH=/src/.mote/bundle BUNDLE_WITHOUT=development:test BUNDLE_VERSION=system
export BUNDLE_USER_CACHE=/cache/bundle BUNDLE_RETRY=1 BUNDLE_SILENCE_ROOT_WARNING=true RAILS_ENV=production SECRET_KEY_BASE_DUMMY=1
echo "using $(ruby --version | cut -d' ' -f1,2) of Debian"
${assets}${buildInSrc}${finish}`,
  elixir: `${prelude}${cache}export HOME=/root MIX_ENV=prod MIX_HOME=/cache/mix HEX_HOME=/cache/hex LANG=C.UTF-8 ELIXIR_ERL_OPTIONS="+fnu"
echo "using $(elixir --short-version) of Debian"
${buildInSrc}rm -rf deps
${finish}`,
} as const
