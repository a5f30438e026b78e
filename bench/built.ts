/** Builds the programs that benchmarks run as child processes, because running them from sources costs extra time and memory. */
import { rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { build } from '../scripts/build.mjs'
import { once } from '../src/lib/once.ts'

const outDir = join(import.meta.dirname, '..', 'node_modules', '.cache', `mote-bench-${process.pid}`)

const built = once(async () => {
  const children = ['plane-child', 'agent-child', 'floor-child', 'least-child', 'ask-child']
  await build(Object.fromEntries(children.map(name => [name, `bench/${name}.ts`])), outDir)
  process.once('exit', () => rmSync(outDir, { recursive: true, force: true }))
})

/** Returns the path of the built file of a child program. */
export async function builtChild(name: `${string}-child.ts`): Promise<string> {
  await built()
  return join(outDir, basename(name, '.ts') + '.js')
}
