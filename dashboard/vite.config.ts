import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

/** Below this a second file on the disk is not worth it. */
const worthCompressingBytes = 1024

/** Writes `.br` and `.gz` beside what compresses, so that the server never has to. */
function precompressed(directory: string): Plugin {
  return {
    name: 'precompressed',
    apply: 'build',
    closeBundle() {
      for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
        const file = join(directory, name)
        if (!/\.(?:js|css|svg)$/.test(name) || statSync(file).size < worthCompressingBytes) continue
        const body = readFileSync(file)
        writeFileSync(`${file}.br`, brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }))
        writeFileSync(`${file}.gz`, gzipSync(body, { level: 9 }))
      }
    },
  }
}

const outDir = join(import.meta.dirname, 'dist')

export default defineConfig({
  plugins: [react(), tailwind(), precompressed(outDir)],
  resolve: { alias: { '@mote/client': join(import.meta.dirname, '..', 'src', 'client', 'index.ts') } },
  server: { proxy: { '/v1': process.env.MOTE_API ?? 'http://localhost:7070' } },
  build: {
    outDir,
    // Browsers of 2024: the first with light-dark() everywhere.
    target: ['chrome123', 'firefox128', 'safari17.5'],
    // Data URLs would need a weaker policy for fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    rolldownOptions: {
      output: {
        // Without this the kit becomes 40 files of a kilobyte, and a first visit 47 requests.
        codeSplitting: {
          groups: [
            {
              name: 'vendor',
              test: /node_modules[\\/](?:react|react-dom|scheduler|@tanstack[\\/](?!react-virtual|virtual))/,
            },
            {
              name: 'kit',
              test: /src[\\/](?:client|(?:ui|api|shell)[\\/](?!log|chart|slider|toggle|copy))|lucide-react|radix-ui[\\/]react-(?:dropdown|menu|tooltip)/,
            },
          ],
        },
      },
    },
  },
})
