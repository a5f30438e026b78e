import { Command } from 'commander'
import { createTerminal } from '../progress.ts'
import { out } from '../terminal.ts'

export function kernelCommands(): Command {
  const kernel = new Command('kernel').description('The kernel that guests boot')
  kernel
    .command('build')
    .description(
      "Build our own small kernel from the distribution's source package; guests boot in a third of the time",
    )
    .option('--cache <dir>', 'where kernels and images are kept (MOTE_CACHE)')
    .action(async (flags: { cache?: string }) => {
      const { buildOwnKernel } = await import('../../agent/guest/own-kernel.ts')
      const terminal = createTerminal()
      const stop = new AbortController()
      process.once('SIGINT', () => stop.abort())
      const dir = await terminal.step('Building the guest kernel', async () =>
        buildOwnKernel(await cacheDir(flags.cache), line => terminal.line(line), stop.signal),
      )
      out(`${dir}/vmlinux\nAgents that start from now on boot guests with it.\n`)
    })
  kernel
    .command('show')
    .description('Which kernel guests boot on this machine')
    .option('--cache <dir>', 'where kernels and images are kept (MOTE_CACHE)')
    .option('--json', 'as JSON')
    .action(async (flags: { cache?: string; json?: boolean }) => {
      const { ensureKernel } = await import('../../agent/guest/kernel.ts')
      const terminal = createTerminal()
      const found = await terminal.step('Looking for the guest kernel', async () =>
        ensureKernel(await cacheDir(flags.cache), line => terminal.line(line)),
      )
      out(flags.json ? `${JSON.stringify(found)}\n` : `Linux ${found.version}  ${found.kernel}\n`)
    })
  return kernel
}

async function cacheDir(asked: string | undefined): Promise<string> {
  if (asked !== undefined) return asked
  const { agentConfig } = await import('../../agent/config.ts')
  return process.env.MOTE_CACHE || agentConfig({ dataDir: '.mote/agent', hostName: 'this' }).cacheDir
}
