import type { Network } from '../../net/net.ts'
import { oldestRunsc, runscVersion, testedRunsc } from './runsc.ts'

export interface Probe {
  readonly available: boolean
  readonly detail: string
  /** What to do next; null if nothing is needed. */
  readonly fix: string | null
}

export interface ProbeDeps {
  readonly cacheDir: string
  readonly network: Pick<Network, 'mode'>
  readonly program: string | undefined
  readonly init: () => Promise<string>
}

export async function probeRunsc({ program, network }: ProbeDeps, signal: AbortSignal): Promise<Probe> {
  const no = (detail: string, fix: string): Probe => ({ available: false, detail, fix })
  if (program === undefined) return no('not installed', 'run mote runsc install: native speed without KVM')
  if (network.mode !== 'tap') return no('needs taps', 'run the agent as root')
  signal.throwIfAborted()
  const version = await runscVersion(program)
  return { available: true, detail: `systrap, ${version}`, fix: null }
}
void oldestRunsc
void testedRunsc
