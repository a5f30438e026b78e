import { Command } from 'commander'

export function demoCommand(): Command {
  return new Command('demo')
    .description('Bring up a whole cloud and deploy an app into a real microVM')
    .option('--git', 'deploy by git push: a repository, a signed webhook, a build in a VM')
    .option('--once', 'tear everything down again afterwards and exit')
    .option('--port <port>', 'port of the API', '7070')
    .option('--gateway-port <port>', 'port of the gateway', '7080')
    .option('--data <dir>', 'where it keeps its data', '.mote')
    .option('--hypervisor <name>', 'auto, qemu or fake', 'auto')
    .option('--network <mode>', 'auto, tap or user', 'auto')
    .action(async flags => {
      const { runDemo } = await import('../demo/run.ts')
      await runDemo(flags)
    })
}
