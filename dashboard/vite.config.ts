import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

/** Smaller files are not compressed, because it would save too little. */
const worthCompressingBytes = 1024

/**
 * Writes a compressed `.br` and `.gz` file for each JavaScript, CSS and SVG file, so that the server need not compress.
 */
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
    // Browsers of 2024, the first ones that all support `light-dark()`.
    target: ['chrome123', 'firefox128', 'safari17.5'],
    // Do not embed files as data URLs: fonts in data URLs would need a weaker content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    rolldownOptions: {
      output: {
        // Two bundles for shared code. By default, the build makes 40 files of about 1 KB of it, and a first visit
        // needs 47 requests.
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
