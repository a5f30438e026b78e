/** Runs Ganeti's hspace, to measure how fast its allocator fills a simulated cluster in memory. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { hasProgram } from '../src/lib/programs.ts'

export interface Hspace extends AsyncDisposable {
  /** Returns the number of placements per second on this many empty nodes, until about `count` VMs are placed. */
  placements(nodes: number, count: number): Promise<number>
}

/** Prepares hspace. @throws Error with the reason if it cannot run */
export async function startHspace(): Promise<Hspace> {
  if (!(await hasProgram('hspace'))) throw new Error('hspace is not installed: npm run bench -- --install-peers')
  return {
    async placements(nodes, count) {
      const cluster = ['--simulate', `preferred,${nodes},100G,64G,32`, '--disk-template', 'plain']
      const args = [...cluster, '--standard-alloc', '1g,512m,1', '--max-length', String(count)]
      const began = performance.now()
      const { stdout } = await promisify(execFile)('hspace', args)
      const seconds = (performance.now() - began) / 1000
      // Count all placements, because hspace first fills the cluster with large VMs.
      const made = [...stdout.matchAll(/- +(\d+) instances /g)].reduce((sum, [, number]) => sum + Number(number), 0)
      if (made < count) throw new Error(`hspace placed ${made} of ${count}`)
      return made / seconds
    },
    [Symbol.asyncDispose]: async () => {},
  }
}
