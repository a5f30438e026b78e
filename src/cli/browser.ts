import { spawn } from 'node:child_process'
import { platform } from 'node:os'

/** Opens an address in the user's browser. False where there is none: the address was printed anyway. */
export function openInBrowser(address: string): Promise<boolean> {
  const program = platform() === 'darwin' ? 'open' : 'xdg-open'
  return new Promise(resolve => {
    const child = spawn(program, [address], { stdio: 'ignore', detached: true })
    child.once('error', () => resolve(false))
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}
