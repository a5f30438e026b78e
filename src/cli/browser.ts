import { spawn } from 'node:child_process'
import { platform } from 'node:os'

/** Opens a URL in the user's browser. Returns false if that fails; callers print the URL first. */
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
