import { Command } from 'commander'

export function demoCommand(): Command {
  return new Command('demo')
    .description('Start a complete cloud and deploy an app to a real microVM')
    .option('--git', 'deploy by git push: a repository, a signed webhook, a build in a VM')
    .option('--once', 'remove everything again once the app has responded, and exit')
    .option('--port <port>', 'port of the API', '7070')
    .option('--gateway-port <port>', 'port of the gateway', '7080')
    .option('--data <dir>', 'data directory', '.mote')
    .option('--hypervisor <name>', 'auto, gvisor, qemu or fake; default: MOTE_HYPERVISOR, or auto')
    .option('--network <mode>', 'auto, tap or user', 'auto')
    .action(async flags => {
      const { runDemo } = await import('../demo/run.ts')
      await runDemo(flags)
    })
}
