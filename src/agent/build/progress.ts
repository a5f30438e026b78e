/** Progress lines in a build log: the duration of each step, and a regular line while a step prints nothing. */
import { seconds } from '../../lib/duration.ts'

const silenceMs = seconds(30)

export interface SilenceWatch extends Disposable {
  /** Called when the step has printed something: the next progress line comes 30 seconds later. */
  heard(): void
}

/** Logs every 30 seconds without output that the build is still running, until disposed. */
export function watchSilence(say: (line: string) => void): SilenceWatch {
  let silentMs = 0
  const timer = setInterval(() => {
    silentMs += silenceMs
    say(`still running; no output for ${duration(silentMs)}`)
  }, silenceMs)
  return {
    heard: () => {
      silentMs = 0
      timer.refresh()
    },
    [Symbol.dispose]: () => clearInterval(timer),
  }
}

/** Runs a step and logs its duration, even if it fails. */
export async function timed<Result>(
  say: (line: string) => void,
  name: string,
  step: () => Promise<Result>,
): Promise<Result> {
  const startMs = performance.now()
  try {
    return await step()
  } finally {
    say(`${name} took ${duration(performance.now() - startMs)}`)
  }
}

/** Formats a duration: `0.4 s`, `59.9 s`, `2 min 5 s`. */
export function duration(ms: number): string {
  const tenths = Math.round(ms / 100)
  if (tenths < 600) return `${tenths / 10} s`
  const whole = Math.round(ms / 1000)
  return `${Math.floor(whole / 60)} min ${whole % 60} s`
}
