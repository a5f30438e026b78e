import { Command } from 'commander'
import { minutes } from '../../lib/duration.ts'
import { createTerminal } from '../progress.ts'
import { out } from '../terminal.ts'

export function kernelCommands(): Command {
  const kernel = new Command('kernel').description('The kernel that guests boot')
  kernel
    .command('build')
    .description("Build the kernel for VMs from the distribution's source package (8 minutes), to use with MOTE_KERNEL")
    .option('--cache <dir>', 'cache directory of kernels and images (MOTE_CACHE)')
    .action(async (flags: { cache?: string }) => {
      const { buildOwnKernel } = await import('../../agent/guest/own-kernel.ts')
      const terminal = createTerminal()
      const stop = new AbortController()
      process.once('SIGINT', () => stop.abort())
      const dir = await terminal.step(
        'Building the guest kernel',
        async () => buildOwnKernel(await cacheDir(flags.cache), line => terminal.line(line), stop.signal),
        minutes(8),
      )
      out(`${dir}/vmlinux\nStart agents with MOTE_KERNEL=${dir} to boot VMs with it.\n`)
    })
  kernel
    .command('show')
    .description('Show the kernel that guests boot on this host')
    .option('--cache <dir>', 'cache directory of kernels and images (MOTE_CACHE)')
    .option('--json', 'print the result as JSON')
    .action(async (flags: { cache?: string; json?: boolean }) => {
      const { ensureKernel } = await import('../../agent/guest/kernel.ts')
      const terminal = createTerminal()
      const found = await terminal.step('Looking for the guest kernel', async () =>
        ensureKernel(await cacheDir(flags.cache), line => terminal.line(line), process.env.MOTE_KERNEL || 'shipped'),
      )
      out(flags.json ? `${JSON.stringify(found)}\n` : `Linux ${found.version}  ${found.kernel}\n`)
    })
  return kernel
}

async function cacheDir(asked: string | undefined): Promise<string> {
  if (asked !== undefined) return asked
  const { agentConfig } = await import('../../agent/base/config.ts')
  return process.env.MOTE_CACHE || agentConfig({ dataDir: '.mote/agent', hostName: 'this' }).cacheDir
}
