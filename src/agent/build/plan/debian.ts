/** Debian packages that a project's dependencies need and that the builder's images do not contain. */
import type { DebianPackages } from './types.ts'

export const noPackages: DebianPackages = { build: [], run: [] }

type Needs = Partial<DebianPackages>

/**
 * Packages that Python packages need, by PyPI name as a regular expression. `build` has headers for compiling, `run`
 * has programs, and libraries that are loaded by name at run time. Libraries that a compiled module links are found
 * without a row in this table.
 */
export const pythonNeeds: Readonly<Record<string, Needs>> = {
  cairocffi: { run: ['libcairo2'] },
  cairosvg: { run: ['libcairo2'] },
  ctypescrypto: { run: ['libssl3t64'] },
  'ffmpeg-python': { run: ['ffmpeg'] },
  graphviz: { run: ['graphviz'] },
  moviepy: { run: ['ffmpeg'] },
  'opencv-python': { run: ['libgl1', 'libglib2.0-0t64'] },
  pdf2image: { run: ['poppler-utils'] },
  'psycopg(?!\\[(?:binary|c)\\b)': { run: ['libpq5'] },
  pycairo: { build: ['libcairo2-dev'] },
  pydub: { run: ['ffmpeg'] },
  pygraphviz: { build: ['libgraphviz-dev'], run: ['graphviz'] },
  pyodbc: { build: ['unixodbc-dev'], run: ['unixodbc'] },
  pytesseract: { run: ['tesseract-ocr'] },
  'python-ldap': { build: ['libldap-dev', 'libsasl2-dev'] },
  'python-magic': { run: ['libmagic1t64'] },
  pyzbar: { run: ['libzbar0t64'] },
  weasyprint: { run: ['libpango-1.0-0', 'libpangoft2-1.0-0', 'libharfbuzz-subset0'] },
  xmlsec: { build: ['libxmlsec1-dev'], run: ['libxmlsec1t64-openssl'] },
}

/** Packages that npm packages need, by npm name. */
export const nodeNeeds: Readonly<Record<string, Needs>> = {
  canvas: { build: ['libcairo2-dev', 'libgif-dev', 'libpango1.0-dev', 'librsvg2-dev'] },
  'fluent-ffmpeg': { run: ['ffmpeg'] },
  gm: { run: ['graphicsmagick'] },
  puppeteer: { run: ['chromium', 'fonts-liberation'] },
}

/** PHP, with the extensions that most sites use. */
export const phpPackages = [
  ...[
    'php-cli',
    'php-curl',
    'php-gd',
    'php-intl',
    'php-mbstring',
    'php-mysql',
    'php-pgsql',
    'php-redis',
    'php-sqlite3',
  ],
  ...['php-xml', 'php-zip'],
] as const

/**
 * Returns the Debian packages that the project's dependencies need.
 * @param uses whether the project uses the dependency
 */
export function debianOf(needs: Readonly<Record<string, Needs>>, uses: (name: string) => boolean): DebianPackages {
  const found = Object.entries(needs).filter(([name]) => uses(name))
  const all = (kind: keyof DebianPackages) => [...new Set(found.flatMap(([, need]) => need[kind] ?? []))].sort()
  return found.length === 0 ? noPackages : { build: all('build'), run: all('run') }
}

export const withPackages = (one: DebianPackages, other: DebianPackages): DebianPackages => ({
  build: [...new Set([...one.build, ...other.build])].sort(),
  run: [...new Set([...one.run, ...other.run])].sort(),
})

/** Whether the text is a valid name of a Debian package (Debian Policy 5.6.1). */
export const isDebianName = (name: string) => /^[a-z0-9][a-z0-9.+-]{1,80}$/.test(name)

/** Tools that a project may use in addition to its own language, with their versions in Debian 13. */
export const debianTools: ReadonlyMap<string, { readonly version: string; readonly packages: readonly string[] }> =
  new Map([
    ['elixir', { version: '1.18', packages: ['elixir', 'erlang-dev', 'erlang-nox'] }],
    ['erlang', { version: '27', packages: ['erlang-nox'] }],
    ['go', { version: '1.24', packages: ['golang-go'] }],
    ['java', { version: '21', packages: ['openjdk-21-jre-headless'] }],
    ['jq', { version: '1.7', packages: ['jq'] }],
    ['php', { version: '8.4', packages: ['php-cli'] }],
    ['python', { version: '3.13', packages: ['python-is-python3', 'python3', 'python3-venv'] }],
    ['ruby', { version: '3.3', packages: ['ruby', 'bundler'] }],
  ])

/**
 * Whether Debian's version can replace a wanted one such as `8.2`, `^8.1`, `>=8.0`, `~> 1.13`, Java's `1.8` or
 * `temurin-17.0.2`. PHP needs the same minor version, because minor versions remove functions. Other languages run code
 * of older versions.
 */
export function debianReplaces(tool: string, wanted: string): boolean {
  const [ourMajor = 0, ourMinor = 0] = (debianTools.get(tool)?.version ?? '').split('.').map(Number)
  if (tool === 'java') return Number(/(?:1\.)?(\d+)/.exec(wanted)?.[1] ?? Infinity) <= ourMajor
  const [, sign = '', major = '', minor = '0'] = /(\^|>=|~>)?\s{0,4}(\d+)(?:\.(\d+))?/.exec(wanted) ?? []
  if (tool === 'erlang') return Number(major) <= ourMajor
  if (Number(major) !== ourMajor) return false
  return sign === '' && tool === 'php' ? Number(minor) === ourMinor : Number(minor) <= ourMinor
}
