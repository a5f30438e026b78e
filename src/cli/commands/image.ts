import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Command } from 'commander'
import { minutes, seconds } from '../../lib/duration.ts'
import { createTerminal } from '../progress.ts'
import { err, out } from '../terminal.ts'

export function imageCommands(): Command {
  const image = new Command('image').description('Build images that Mote uses, such as that of managed databases')
  const build = image.command('build').description('Build an image in the image directory of this host')
  build
    .command('postgres')
    .description(
      'Build the image of managed databases with packages of the given PostgreSQL version (needs root, apt and the network)',
    )
    .option('--version <major>', 'major version of PostgreSQL', '15')
    .option('--data <dir>', 'data directory of the agent that gets the image', process.env.MOTE_DATA ?? '.mote')
    .option('--again', 'rebuild an existing image')
    .action(async (flags: { version: string; data: string; again?: boolean }) => {
      const { buildPostgresImage } = await import('../../agent/image/postgres/build.ts')
      const version = Number(flags.version)
      if (!Number.isInteger(version) || version < 10 || version > 99)
        throw new Error(`--version: "${flags.version}" is not a major version, e.g. 15`)
      const terminal = createTerminal()
      const build = () =>
        buildPostgresImage({
          imageDir: join(resolve(flags.data), 'images'),
          version,
          again: flags.again ?? false,
          say: terminal.line,
        })
      const name = await terminal.step(`Image of PostgreSQL ${version}`, build, seconds(40))
      out(`${name}\n`)
      // Warn about a data directory that no agent uses: an image built there has no effect, and the agent in use would
      // still refuse databases of this version.
      if (!existsSync(join(resolve(flags.data), 'agent')))
        err(
          `No agent has used the data directory ${resolve(flags.data)} so far. If yours has another one, run this again with --data, or in the folder where you start the cloud.\n`,
        )
    })
  build
    .command('builder')
    .description(
      'Build the images that apps are built in and run on; by default the first build that needs them does this',
    )
    .option('--data <dir>', 'data directory of the agent that gets the images', process.env.MOTE_DATA ?? '.mote')
    .option('--cache <dir>', 'cache directory for all agents of this host', process.env.MOTE_CACHE)
    .action(async (flags: { data: string; cache?: string }) => {
      const { ensureToolImage, hasToolImage, toolImages } = await import('../../agent/build/tool-images.ts')
      const { agentConfig } = await import('../../agent/base/config.ts')
      const dataDir = join(resolve(flags.data), 'agent')
      const imageDir = join(resolve(flags.data), 'images')
      const cache = flags.cache === undefined ? {} : { cacheDir: resolve(flags.cache) }
      const dirs = agentConfig({ dataDir, imageDir, hostName: 'builder', ...cache })
      const terminal = createTerminal()
      for (const name of toolImages) {
        const layout = await terminal.step(
          `Image ${name}`,
          () => ensureToolImage(dirs, name, terminal.line),
          hasToolImage(dirs.cacheDir, name) ? undefined : minutes(3),
        )
        out(`${name} ${layout}\n`)
      }
    })
  return image
}
