/** Shows timed steps: a spinner on a terminal, plain lines elsewhere. Writes to standard error. */
import { pc } from '../programs/colours.ts'
import { printableInColour, printableLine } from '../lib/printable.ts'
import type { Progress } from '../programs/all-in-one.ts'

export interface Terminal extends Progress {
  /** Prints a line above the running step. */
  line(text: string): void
  /** Prints a step that was timed elsewhere. */
  timed(name: string, ms: number): void
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
    async step(name, work) {
      const started = performance.now()
      let frame = 0
      redraw = () => {
        if (live)
          out.write(
            `\r\x1b[K${pc.cyan(frames[frame % frames.length]!)} ${printableLine(name).padEnd(nameWidth)} ${pc.dim(seconds(performance.now() - started))}`,
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
        const result = await work()
        end(pc.green('✓'))
        return result
      } catch (cause) {
        end(pc.red('✗'))
        throw cause
      }
    },
  }
}

const seconds = (ms: number) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`)
