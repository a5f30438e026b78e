import { readFileSync } from 'node:fs'
import { run } from '../../lib/exec.ts'

/**
 * Returns the host's TSC frequency in kHz, for `tsc_early_khz`. The guest's clock depends on it. Sources, in order: the
 * host kernel's measurement, the nominal frequency in the CPU's model name, and the CPU's current frequency, which
 * varies.
 */
export async function hostTscKhz(): Promise<number> {
  const messages = await run('dmesg', [], { timeoutMs: 2_000 }).catch(() => '')
  const cpu = readFileSync('/proc/cpuinfo', 'utf8')
  return tscKhzFrom(messages, cpu)
}

/** Finds the TSC frequency in the text of the kernel log and of /proc/cpuinfo. */
export function tscKhzFrom(kernelMessages: string, cpuinfo: string): number {
  const measured = [...kernelMessages.matchAll(/tsc: (?:Refined TSC clocksource calibration:|Detected) ([\d.]+) MHz/g)]
  const mhz = measured.at(-1)?.[1] ?? /^cpu MHz\s*:\s*([\d.]+)/m.exec(cpuinfo)?.[1]
  const ghz = measured.length === 0 ? /model name.*@ ([\d.]+)GHz/.exec(cpuinfo)?.[1] : undefined
  if (ghz !== undefined) return Math.round(Number(ghz) * 1e6)
  return mhz === undefined ? 2_000_000 : Math.round(Number(mhz) * 1000)
}
