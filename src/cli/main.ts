/** The `mote` command. Prints the version without loading the commands, because loading them would double the time. */
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { homeDir } from '../lib/home.ts'
import { productVersion } from '../lib/version.ts'
import { out } from './terminal.ts'

// The reader of the output may close the pipe early (`mote --help | head`), which is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

const [, , first, ...rest] = process.argv
if (rest.length === 0 && (first === '--version' || first === '-V')) out(`${productVersion}\n`)
else {
  // Keeps the compiled code of commands between runs, which saves a fifth of the CPU time of `mote ps`.
  enableCompileCache(join(homeDir(), '.cache', 'mote', 'compiled'))
  await import('./mote.ts')
}
