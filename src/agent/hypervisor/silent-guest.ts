/** Explains why a guest that was started has not reached Mote's init, and what to do next. */

/**
 * Time after which a guest without a message from Mote's init counts as silent. Init sends its message after 0.3 to 2
 * s; with emulation on a host with four times as many vCPUs as CPUs, after 10 s.
 */
export const silentAfterMs = 20_000

export interface SilentGuest {
  /** The last output on the guest's serial console. */
  readonly console: string
  /** Share of one host CPU that the guest's VMM has used since its start; undefined if unknown. */
  readonly busy?: number | undefined
}

interface Silence {
  readonly cause: 'kernel' | 'clock' | 'cpu' | 'vmm'
  readonly says: string
}

const idleBelow = 0.1

/** Returns the most likely cause. A message of the guest's kernel is better evidence than CPU usage. Pure. */
export function causeOfSilence({ console, busy }: SilentGuest): Silence {
  const lines = console.split('\n').filter(line => line.trim() !== '')
  const last = lines.at(-1)
  const fatal = lines.find(line => /Kernel panic|BUG:|Oops|Unable to mount|No working init/.test(line))
  if (fatal !== undefined) return { cause: 'kernel', says: `its kernel stopped with "${fatal.trim()}"` }
  if (last !== undefined && /tsc|clocksource|APIC|timer|calibrat/i.test(last))
    return { cause: 'clock', says: `its kernel waits for a clock after "${last.trim()}"` }
  if (last !== undefined)
    return { cause: 'kernel', says: `its kernel did not reach Mote's init after "${last.trim()}"` }
  if (busy !== undefined && busy < idleBelow)
    return { cause: 'vmm', says: 'its processor does not run, and its console is silent' }
  const silent = busy === undefined ? 'its console is silent' : 'its processor runs, and its console is silent'
  return { cause: 'cpu', says: `${silent}: the kernel does not work with this CPU or VMM` }
}

const nextStep: Readonly<Record<Silence['cause'], string>> = {
  kernel: 'try the other kernel with MOTE_KERNEL=distribution, and run mote doctor',
  clock: 'run mote doctor, which boots the kernel alone; a busy host delays clocks',
  cpu: 'run mote doctor, which says whether this VMM version is a tested one',
  vmm: 'look for a stopped or starved process on the host, and run mote doctor',
}

/** Returns the explanation as one sentence for a log line or an error. */
export function explainSilence(guest: SilentGuest): string {
  const { cause, says } = causeOfSilence(guest)
  return `${says} (cause: ${cause}; next: ${nextStep[cause]})`
}
