/** Commands for running VMs: snapshots, clones, migration, memory. */
import type { Command } from 'commander'
import { appFlag, appOf } from '../folder.ts'
import { age, bytes, facts, listing, status } from '../output.ts'
import { type Call, noun, said, text, type Verb, verb, wholeNumber } from '../verb.ts'
import { untilMoved } from '../move-wait.ts'
import { deploymentFlag, deploymentOf } from './app.ts'

export const vmCommands = (): Command[] => [
  noun('snapshots', 'Snapshots of the memory and disks of a running VM', [list, create, restore, fork, remove]),
  ...[migrate, balloon].map(verb),
]

const target = [appFlag, deploymentFlag]

async function at(call: Call) {
  const app_name = await appOf(call)
  return { app_name, job_id: await deploymentOf(call, app_name) }
}

/** Returns a field of a response without a fixed schema, as text. */
const field = (value: unknown, name: string): string => {
  const found: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
  return found === undefined || found === null ? '' : String(found)
}

const list: Verb = {
  usage: 'list',
  says: 'List the VM snapshots of a deployment, newest first',
  aliases: ['ls'],
  options: target,
  async run(call) {
    const answer = await call.client.listVmSnapshots(await at(call))
    const all: unknown[] = Array.isArray(answer) ? answer : []
    const rows = all.map(one => [
      ...[field(one, 'name'), status(field(one, 'status')), bytes(Number(field(one, 'size_bytes')))],
      ...[`${Math.round(Number(field(one, 'pause_ms')))} ms`, age(field(one, 'created_at'))],
    ])
    return said(answer, listing(['NAME', 'STATUS', 'SIZE', 'PAUSE', 'CREATED'], rows, 'No snapshots.'))
  },
}

const create: Verb = {
  usage: 'create <name>',
  says: 'Take a snapshot of the VM of the app, which pauses briefly',
  options: target,
  example: 'mote snapshots create before-upgrade --app web',
  async run(call) {
    const [name = ''] = call.args
    const answer = await call.client.createVmSnapshot({ ...(await at(call)), body: { snapshot_name: name } })
    return said(answer, `Snapshot ${name} is being made.`)
  },
}

const restore: Verb = {
  usage: 'restore <name>',
  says: 'Roll the VM of the app back to a snapshot',
  options: target,
  async run(call) {
    const [snapshot_name = ''] = call.args
    const answer = await call.client.restoreVmSnapshot({ ...(await at(call)), snapshot_name })
    return said(answer, `Rolling the VM back to ${snapshot_name}.`)
  },
}

const fork: Verb = {
  usage: 'fork <name> <new-app>',
  says: 'Create a new app whose VMs are clones of a VM snapshot',
  options: [...target, ['--replicas <count>', 'number of clones, 1 to 20']],
  example: 'mote snapshots fork warm web-copy --app web --replicas 3',
  async run(call) {
    const [snapshot_name = '', app_name = ''] = call.args
    const body = { app_name, replicas: wholeNumber(call.flags, 'replicas') }
    const answer = await call.client.forkVmSnapshot({ ...(await at(call)), snapshot_name, body })
    return said(answer, `App ${app_name} starts from ${snapshot_name}.`)
  },
}

const remove: Verb = {
  usage: 'delete <name>',
  says: 'Delete a VM snapshot',
  options: target,
  async run(call) {
    const [snapshot_name = ''] = call.args
    const answer = await call.client.deleteVmSnapshot({ ...(await at(call)), snapshot_name })
    return said(answer, `Snapshot ${snapshot_name} is being deleted.`)
  },
}

const migrate: Verb = {
  usage: 'migrate [host]',
  says: 'Migrate the VM of the app with its volumes to another host, live if possible; without a host, show the progress',
  options: [
    ...target,
    ['--cancel', 'cancel the migration; the VM stays on its host'],
    ['--no-wait', 'return without waiting for the result'],
    ['--uri <uri>', 'address that the target host listens on'],
  ],
  example: 'mote migrate host-2 --app web\nmote migrate --app web',
  async run(call) {
    const place = await at(call)
    const [target_host] = call.args
    if (call.flags.cancel) return said(await call.client.cancelMigration(place), 'The migration is being canceled.')
    if (target_host) {
      const body = { target_host, target_uri: text(call.flags, 'uri') ?? '' }
      const started = await call.client.startMigration({ ...place, body })
      if (call.flags.wait === false) return said(started, `Migrating the VM to ${target_host}.`)
      const moved = await untilMoved(call, `Moving the VM to ${target_host}`, 'The VM', () =>
        call.client.getMigration(place, { signal: call.signal }),
      )
      const pause = moved.downtime_ms ? ` It was paused for ${moved.downtime_ms} ms.` : ''
      return said(moved, `The VM runs on ${target_host}.${pause}`)
    }
    const answer = await call.client.getMigration(place)
    return said(
      answer,
      facts(Object.fromEntries(Object.entries(Object(answer)).map(([name, value]) => [name, String(value ?? '')]))),
    )
  },
}

const balloon: Verb = {
  usage: 'balloon [mib]',
  says: 'Set the memory that the VM may use (balloon); without a number, show it',
  options: target,
  example: 'mote balloon 256 --app web',
  async run(call) {
    const place = await at(call)
    const answer = call.args[0]
      ? await call.client.setBalloon({
          ...place,
          body: { target_memory_mib: wholeNumber({ mib: call.args[0] }, 'mib') ?? 0 },
        })
      : await call.client.getBalloon(place)
    return said(
      answer,
      `target ${field(answer, 'target_memory_mib')} MiB, now ${field(answer, 'actual_memory_mib')} MiB`,
    )
  },
}
