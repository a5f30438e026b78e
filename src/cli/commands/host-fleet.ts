/** Operator commands for hosts that have joined. */
import type { Command } from 'commander'
import type { Host, HostDetails } from '../../client/index.ts'
import { labelsText, parseLabels } from '../../lib/labels.ts'
import { age, status, table } from '../output.ts'
import { said, type Verb, verb } from '../verb.ts'

export const fleetCommands = (): Command[] =>
  [
    list,
    change('cordon', 'Place no new VMs on a host', 'cordonHost'),
    change('uncordon', 'Allow new VMs on a host again, and stop draining it', 'uncordonHost'),
    change('drain', 'Move all VMs of a host to other hosts, live if the hypervisor supports it', 'drainHost'),
    label,
    remove,
  ].map(verb)

const list: Verb = {
  usage: 'list',
  says: 'List hosts with capacity and usage',
  aliases: ['ls'],
  async run({ client }) {
    const hosts = await client.listHosts()
    return said(hosts, hosts.length === 0 ? 'No host has joined: mote host add <name>' : hostTable(hosts))
  },
}

const change = (name: string, says: string, by: 'cordonHost' | 'uncordonHost' | 'drainHost'): Verb => ({
  usage: `${name} <host>`,
  says,
  async run({ client, args: [host_id = ''] }) {
    const changed = await client[by]({ host_id })
    const host = changed.draining ? await client.getHost({ host_id: changed.id }) : changed
    return said(host, [hostTable([host]), ...leavingLines(host)].join('\n'))
  },
})

const label: Verb = {
  usage: 'label <host> [labels...]',
  says: 'Set labels of a host (region=eu), or remove labels that were set with this command (region-); without labels, show them',
  example: 'mote host label host-1 region=eu disk=nvme\nmote host label host-1 disk-',
  async run({ client, args: [host_id = ''], rest }) {
    const host = await client.getHost({ host_id })
    if (rest.length === 0) return said(host, labelsText(host.labels) || 'The host has no labels.')
    const now = Object.entries(host.labels).filter(([name, value]) => host.agent_labels[name] !== value)
    const removed = new Set(rest.flatMap(one => (/^[^=]+-$/.test(one) ? [one.slice(0, -1)] : [])))
    const added = parseLabels(rest.filter(one => !/^[^=]+-$/.test(one)).join(','))
    const labels = { ...Object.fromEntries(now.filter(([name]) => !removed.has(name))), ...added }
    const changed = await client.setHostLabels({ host_id, body: { labels } })
    return said(changed, labelsText(changed.labels) || 'The host has no labels.')
  },
}

const remove: Verb = {
  usage: 'remove <host>',
  says: 'Remove a host permanently',
  options: [['--force', 'remove the host even if it has VMs: they restart on other hosts, and the host is fenced']],
  async run({ client, args: [host_id = ''], flags }) {
    const answer = await client.removeHost({ host_id, query: flags.force === true ? { force: true } : undefined })
    return said(answer, `Host ${host_id} is removed. Stop its agent.`)
  },
}

/** Lists the VMs and volumes that are left on a draining host. */
function leavingLines({ draining, leaving = [], leaving_volumes: volumes = [] }: HostDetails): string[] {
  if (!draining) return []
  const vmRows = leaving.map(({ app_name, job_id, state, reason }) => [app_name, job_id, state, reason])
  const volumeRows = volumes.map(({ name, state, reason }) => [name, state, reason])
  return [
    '',
    vmRows.length > 0 ? table(['APP', 'JOB', 'STATE', 'WHY'], vmRows) : 'No VMs are left on the host.',
    ...(volumeRows.length > 0 ? ['', table(['VOLUME', 'STATE', 'WHY'], volumeRows)] : []),
    ...(vmRows.length + volumeRows.length > 0 ? ['', 'Run the command again to see progress.'] : []),
  ]
}

function hostTable(hosts: readonly Host[]): string {
  const rows = hosts.map(host => [
    host.name,
    [status(host.status), host.draining ? 'draining' : host.cordoned ? 'cordoned' : ''].filter(Boolean).join(', '),
    `${host.used_vcpus}/${host.vcpus}`,
    `${host.used_memory_mib}/${host.memory_mib}`,
    host.strays > 0 ? `${host.vms} (${host.strays} given up)` : String(host.vms),
    ...[host.hypervisors.flatMap(({ name, available }) => (available ? [name] : [])).join(', '), host.network],
    ...[labelsText(host.labels), age(host.last_seen_at), host.id],
  ])
  const head = ['NAME', 'STATUS', 'VCPUS', 'MEMORY MIB', 'VMS', 'HYPERVISORS', 'NETWORK', 'LABELS', 'SEEN', 'ID']
  return table(head, rows)
}
