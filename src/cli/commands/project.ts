/** Commands for projects and accounts: members, tokens, notifications. */
import type { Command } from 'commander'
import { confirmByName } from '../ask.ts'
import { age, facts, listing, status } from '../output.ts'
import { keep, readRetained } from '../session.ts'
import { noun, said, text, type Verb, verb } from '../verb.ts'

export const projectCommands = (): Command[] => [
  noun('projects', 'Projects and their members', [
    listProjects,
    createProject,
    useProject,
    members,
    invite,
    deleteProject,
  ]),
  noun('tokens', 'Access tokens of the account', [listTokens, createToken, revokeToken]),
  ...[notifications, billing, mesh].map(verb),
]

const listProjects: Verb = {
  usage: 'list',
  says: 'List the projects of the account',
  aliases: ['ls'],
  async run({ client, project }) {
    const all = await client.listProjects()
    const rows = all.map(one => [
      one.tenant_id === project || one.id === project ? '*' : '',
      one.tenant_id,
      one.name,
      age(one.created_at),
    ])
    return said(all, listing(['', 'SLUG', 'NAME', 'AGE'], rows, 'No projects.'))
  },
}

const createProject: Verb = {
  usage: 'create <name>',
  says: 'Create a project',
  async run({ client, args: [name = ''] }) {
    const made = await client.createProject({ body: { name } })
    return said(made, `Created the project ${made.tenant_id}. Use it: mote projects use ${made.tenant_id}`)
  },
}

const useProject: Verb = {
  usage: 'use <slug>',
  says: 'Select the default project of this computer',
  async run({ client, args: [slug = ''] }) {
    const project = await client.getProject({ tenant_slug: slug })
    await keep({ ...(await readRetained()), project: project.tenant_id })
    return said(project, `Commands now use the project ${project.tenant_id}.`)
  },
}

const slugOf = async (call: Parameters<Verb['run']>[0]) =>
  call.project ?? (await call.client.listProjects())[0]?.tenant_id ?? ''

const members: Verb = {
  usage: 'members',
  says: 'List the members and open invitations of the project',
  async run(call) {
    const list = await call.client.listMembers({ tenant_slug: await slugOf(call) })
    const rows = [
      ...list.members.map(one => [one.email, one.role, age(one.since)]),
      ...list.invitations.map(one => [one.email, `${one.role} (invited)`, '']),
    ]
    return said(list, listing(['E-MAIL', 'ROLE', 'SINCE'], rows, 'No members.'))
  },
}

const invite: Verb = {
  usage: 'invite <email> [role]',
  says: 'Invite a user to the project as admin, member or viewer',
  async run(call) {
    const [email = '', asked = 'member'] = call.args
    const roles = ['admin', 'member', 'viewer'] as const
    const role = roles.find(name => name === (asked || 'member'))
    if (!role) throw new Error(`"${asked}" is not a role. Use one of ${roles.join(', ')}.`)
    const made = await call.client.inviteMember({ tenant_slug: await slugOf(call), body: { email, role } })
    return said(made, `Invited ${email} as ${role}. Anyone with this link can accept the invitation:\n${made.link}`)
  },
}

const deleteProject: Verb = {
  usage: 'delete <slug>',
  says: 'Delete a project and everything in it',
  options: [['-y, --yes', 'skip the confirmation']],
  async run({ client, args: [slug = ''], flags }) {
    await confirmByName('the project', slug, flags.yes === true)
    return said(await client.deleteProject({ tenant_slug: slug }), `Project ${slug} is being deleted.`)
  },
}

const listTokens: Verb = {
  usage: 'list',
  says: 'List your access tokens with the time of their last use',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listTokens()
    const rows = all.map(one => [
      ...[one.name, `...${one.token_last_four}`, one.scopes?.join(',') ?? 'all', one.project ?? 'all'],
      ...[age(one.last_used_at), one.id],
    ])
    return said(all, listing(['NAME', 'ENDS IN', 'SCOPES', 'PROJECT', 'USED', 'ID'], rows, 'No tokens.'))
  },
}

const createToken: Verb = {
  usage: 'create <name>',
  says: 'Create an access token, which is shown only once',
  options: [
    ['--scopes <list>', 'scopes of the token, comma-separated: read, exec, deploy, write, admin; all by default'],
    ['--only <project>', 'restrict the token to this project'],
    ['--expires <instant>', 'expiry time (RFC 3339); never by default'],
  ],
  example: 'mote tokens create ci --scopes deploy --only my-project',
  async run({ client, args: [name = ''], flags }) {
    const known = ['read', 'exec', 'deploy', 'write', 'admin'] as const
    const scopes = text(flags, 'scopes')
      ?.split(',')
      .map(asked => {
        const scope = known.find(one => one === asked.trim())
        if (!scope) throw new Error(`"${asked}" is not a scope. Use one of ${known.join(', ')}.`)
        return scope
      })
    const body = { name, scopes, project: text(flags, 'only'), expires_at: text(flags, 'expires') }
    const made = await client.createToken({ body })
    return said(made, made.token)
  },
}

const revokeToken: Verb = {
  usage: 'revoke <id>',
  says: 'Revoke an access token immediately',
  async run({ client, args: [token_id = ''] }) {
    return said(await client.revokeToken({ token_id }), 'The token is revoked.')
  },
}

const notifications: Verb = {
  usage: 'notifications',
  says: 'Show your notifications and mark them as read',
  options: [['--keep', 'do not mark the notifications as read']],
  async run({ client, flags }) {
    const { notifications: all, unread_count } = await client.listNotifications({ query: { limit: 30 } })
    if (unread_count > 0 && !flags.keep) await client.markAllNotificationsRead()
    const rows = all.map(one => [one.is_read ? '' : '*', age(one.created_at), one.title, one.body.split('\n')[0] ?? ''])
    return said(all, listing(['', 'AGE', 'WHAT', 'MORE'], rows, 'No notifications.'))
  },
}

const billing: Verb = {
  usage: 'billing',
  says: 'Show plan, subscription and limits of the project',
  async run({ client }) {
    const [at, used] = await Promise.all([client.getBilling(), client.getUsage()])
    const { plan_limits: limits } = at
    const usage = {
      'this month': `${(used.cost_cents / 100).toFixed(2)}, about ${(used.estimate_cents / 100).toFixed(2)} at the end of the month`,
      budget: used.budget_cents === null ? 'none' : `${(used.budget_cents / 100).toFixed(2)} (${used.budget_state})`,
    }
    const text = facts({ plan: at.plan_name ?? at.tier_slug, subscription: at.status, ...usage, ...Object(limits) })
    return said({ ...at, usage: used }, text)
  },
}

const mesh: Verb = {
  usage: 'mesh',
  says: 'Show the hosts of the private network and their connections',
  async run({ client }) {
    const { enabled, nodes } = await client.getMesh()
    const rows = nodes.map(one => [
      ...[one.name, status(one.status), one.address ?? '', age(one.last_handshake_at)],
      one.latency_ms === null ? '' : `${one.latency_ms.toFixed(1)} ms`,
    ])
    const none = enabled ? 'No hosts.' : 'The mesh is off.'
    return said({ enabled, nodes }, listing(['HOST', 'STATUS', 'ADDRESS', 'HANDSHAKE', 'LATENCY'], rows, none))
  },
}
