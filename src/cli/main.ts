/** The `mote` command. What it only has to print comes before the commands are even read: that takes half of the time. */
import { productVersion } from '../lib/version.ts'
import { out } from './terminal.ts'

// Whoever reads may stop early (`mote --help | head`): that is no fault.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

const [, , first, ...rest] = process.argv
if (rest.length === 0 && (first === '--version' || first === '-V')) out(`${productVersion}\n`)
else await import('./mote.ts')
