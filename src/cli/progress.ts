/** Shows timed steps: a spinner on a terminal, plain lines elsewhere. Writes to standard error. */
import { pc } from '../programs/colours.ts'
import { printableInColour, printableLine } from '../lib/printable.ts'
import type { Progress } from '../programs/all-in-one.ts'

export interface Terminal extends Progress {
  /** Prints a line above the running step. */
  line(text: string): void
  /** Prints a finished step whose duration the caller has measured. */
  timed(name: string, ms: number): void
  /**
   * Runs a step and shows its name and duration.
   * @param work `report` takes the completed share, 0 to 1, from which the remaining time is estimated
   * @param usualMs usual duration of a step that takes more than five seconds and cannot report its share
   */
  step<T>(name: string, work: (report: (share: number) => void) => Promise<T>, usualMs?: number): Promise<T>
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const frameMs = 80
const nameWidth = 24

export function createTerminal(out: NodeJS.WriteStream = process.stderr): Terminal {
  const live = out.isTTY
  const row = (mark: string, name: string, ms: number) =>
    `${mark} ${printableLine(name).padEnd(nameWidth)} ${pc.dim(seconds(ms))}\n`
  let redraw = () => {}
  const clear = () => {
    if (live) out.write('\r\x1b[K')
  }
  return {
    line(text) {
      clear()
      out.write(`${printableInColour(text)}\n`)
      redraw()
    },
    timed(name, ms) {
      clear()
      out.write(row(pc.green('✓'), name, ms))
      redraw()
    },
    async step(name, work, usualMs) {
      const started = performance.now()
      let frame = 0
      let share: number | undefined
      if (usualMs !== undefined && !live) out.write(`  ${printableLine(name)}: ${usually(usualMs)}\n`)
      redraw = () => {
        if (live)
          out.write(
            `\r\x1b[K${pc.cyan(frames[frame % frames.length]!)} ${printableLine(name).padEnd(nameWidth)} ${pc.dim(runningText(performance.now() - started, share, usualMs))}`,
          )
      }
      const timer = setInterval(() => {
        frame++
        redraw()
      }, frameMs)
      redraw()
      const end = (mark: string) => {
        clearInterval(timer)
        redraw = () => {}
        clear()
        out.write(row(mark, name, performance.now() - started))
      }
      try {
        const result = await work(done => (share = done))
        end(pc.green('✓'))
        return result
      } catch (cause) {
        end(pc.red('✗'))
        throw cause
      }
    },
  }
}

/** Formats the elapsed time and, if known, the completed share and the remaining or usual time. */
export function runningText(ms: number, share?: number, usualMs?: number): string {
  if (share !== undefined && share > 0) {
    const done = Math.min(share, 1)
    return `${seconds(ms)}, ${Math.floor(done * 100)} %, about ${rough((ms / done) * (1 - done))} left`
  }
  return usualMs === undefined ? seconds(ms) : `${seconds(ms)}, ${usually(usualMs)}`
}

const usually = (ms: number) => `usually takes about ${rough(ms)}`
const rough = (ms: number) => (ms < 90_000 ? `${Math.ceil(ms / 1000)} s` : `${Math.round(ms / 60_000)} minutes`)
const seconds = (ms: number) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`)
