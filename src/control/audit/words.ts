/** Describes entries of the audit log in words. Pure. */

type Details = Readonly<Record<string, unknown>>
type Words = string | ((details: Details) => string)

const textOf = (value: unknown) => (typeof value === 'string' ? value : typeof value === 'number' ? String(value) : '')
/**
 * Returns the value of the first of these details that is present, with a space before it, such as ` web`; empty if
 * none of them is present.
 */
const named =
  (...keys: readonly string[]) =>
  (details: Details) => {
    const found = keys.map(key => textOf(details[key])).find(text => text !== '')
    return found === undefined ? '' : ` ${found}`
  }
const name = named('name')
const app = named('app', 'name')
const withName =
  (verb: string, find = name) =>
  (details: Details) =>
    `${verb}${find(details)}`
const inWords = (from: string, key: string) => (details: Details) =>
  textOf(details[key]) === '' ? '' : ` ${from} ${textOf(details[key])}`

const scaled = (details: Details) =>
  details.autoscalingEnabled === true
    ? `set${app(details)} to scale automatically${inWords('from', 'minReplicas')(details)}${inWords('to', 'maxReplicas')(details)}`
    : `scaled${app(details)}${inWords('to', 'desiredReplicas')(details)}`
const after = (mark: string, key: string) => (details: Details) =>
  textOf(details[key]) === '' ? '' : `${mark}${textOf(details[key])}`
const ofApp = inWords('of', 'app')
const path = named('path')

/** Descriptions of audited actions, as they follow the name of the actor. */
const words: Readonly<Record<string, Words>> = {
  'account.created': 'created the account',
  'account.deleted': 'deleted the account',
  'account.role_changed': withName('changed the role of the account to', named('role')),
  'account.updated': 'changed the profile',
  'announcement.create': withName('sent the announcement', named('title')),
  'app.create': withName('created the app'),
  'app.delete': withName('deleted the app'),
  'app.env.delete': d => `removed the variable${name(d)}${ofApp(d)}`,
  'app.env.set': d => `set the variable${name(d)}${ofApp(d)}`,
  'app.env.restore': d => `restored version ${textOf(d.version)} of the variables${ofApp(d)}`,
  'app.env_groups': withName('changed the environment groups of', app),
  'app.file.delete': d => `removed the file${name(d)}${ofApp(d)}`,
  'app.file.set': d => `set the file${name(d)}${ofApp(d)}`,
  'app.git_credential.delete': withName('removed the git credential of', app),
  'app.git_credential.set': withName('set the git credential of', app),
  'app.scale': scaled,
  'app.source': withName('uploaded the source of'),
  'app.update': withName('changed the settings of'),
  'auth.2fa_disabled': 'switched two-factor authentication off',
  'auth.2fa_enabled': 'switched two-factor authentication on',
  'auth.2fa_setup': 'began to set up two-factor authentication',
  'auth.credential_refused': 'was refused: the credential is not valid',
  'auth.email_change_asked': 'requested a change of the e-mail address',
  'auth.email_changed': 'changed the e-mail address',
  'auth.email_verified': 'confirmed the e-mail address',
  'auth.link_printed': 'printed a link to sign in',
  'auth.login': 'signed in',
  'auth.login_failed': 'failed to sign in',
  'auth.logout': 'signed out',
  'auth.password_changed': 'changed the password',
  'auth.password_reset': 'reset the password',
  'auth.refresh': 'renewed a session',
  'auth.refresh_failed': 'failed to renew a session',
  'auth.refresh_reused': 'had all sessions revoked: a refresh token was used twice',
  'auth.session_revoked': 'ended a session',
  'auth.sessions_revoked': 'ended all sessions',
  'auth.ssh_key_added': withName('added the SSH key'),
  'auth.ssh_key_removed': withName('removed the SSH key'),
  'auth.verification_asked': 'requested a new confirmation e-mail',
  'balloon.set': 'set the memory balloon of a VM',
  'billing.budget_set': 'set the budget',
  'billing.checkout_opened': 'opened the checkout',
  'billing.plan_changed': withName('changed the plan to', named('to')),
  'billing.portal_opened': 'opened the billing portal',
  'billing.product_chosen': 'chose a product',
  'billing.products_refreshed': 'refreshed the products',
  'database.backup_target': withName('changed the backup target of the database'),
  'database.branch': withName('created a branch of the database'),
  'database.branch_delete': withName('deleted a branch of the database'),
  'database.create': withName('created the database'),
  'database.delete': withName('deleted the database'),
  'database.promote': withName('promoted a branch of the database'),
  'database.restart': withName('restarted the database'),
  'database.restore': withName('restored the database'),
  'database.resume': withName('resumed the database'),
  'database.rotate_password': withName('rotated the password of the database'),
  'database.snapshot': d => `created the snapshot${named('snapshot')(d)} of the database${name(d)}`,
  'database.snapshot_delete': d => `deleted the snapshot${named('snapshot')(d)} of the database${name(d)}`,
  'database.suspend': withName('suspended the database'),
  'database.tunnel': withName('connected to the database'),
  'database.tunnel_password': 'created a password for a database tunnel',
  'database.update': withName('changed the database'),
  'env_group.create': withName('created the environment group'),
  'env_group.delete': withName('deleted the environment group'),
  'env_group.restore': d => `restored version ${textOf(d.version)} of the environment group${named('group')(d)}`,
  'env_group.set': d => `set the variable${name(d)} of the environment group${named('group')(d)}`,
  'env_group.unset': d => `removed the variable${name(d)} of the environment group${named('group')(d)}`,
  'deployment.activate': withName('rolled back', app),
  'deployment.cancel': withName('cancelled a deployment of', app),
  'deployment.create': d => `deployed${app(d)}${textOf(d.image) === '' ? '' : ` (${textOf(d.image)})`}`,
  'deployment.delete': withName('deleted a deployment of', app),
  'deployment.dry_run': 'checked a deployment with a dry run',
  'deployment.failed': d => `reported a failed deployment${ofApp(d)}${after(': ', 'reason')(d)}`,
  'deployment.finished': d => `stopped a deployment${ofApp(d)}, whose program had ended${after(': ', 'version')(d)}`,
  'deployment.live': d => `finished a deployment${ofApp(d)}${after(': ', 'version')(d)}`,
  'deployment.pause': withName('paused', app),
  'deployment.resume': withName('resumed', app),
  'deployment.stop': withName('stopped', app),
  'domain.add': withName('added the domain', named('domain', 'hostname', 'name')),
  'domain.delete': withName('removed the domain', named('domain', 'hostname', 'name')),
  'domain.verify': withName('verified the domain', named('domain', 'hostname', 'name')),
  'host.cordon': withName('cordoned the host'),
  'host.drain': withName('drained the host'),
  'host.remove': withName('removed the host'),
  'host.uncordon': withName('uncordoned the host'),
  'job.create': withName('created the job', named('job')),
  'job.delete': withName('deleted the job', named('job')),
  'job.run': withName('ran the job', named('job')),
  'job.update': withName('changed the job', named('job')),
  'member.added': d => `joined the project${inWords('as', 'role')(d)}`,
  'member.invitation_withdrawn': withName('withdrew the invitation of', named('email')),
  'member.invited': d => `invited${named('email')(d)}${inWords('as', 'role')(d)}`,
  'member.removed': withName('removed the member', named('email')),
  'member.role_changed': d => `changed the role of a member${inWords('to', 'role')(d)}`,
  'migration.cancel': 'cancelled the move of a VM',
  'migration.start': 'moved a VM to another host',
  'project.created': withName('created the project', named('name', 'slug')),
  'project.deleted': withName('deleted the project', named('slug')),
  'project.renamed': withName('renamed the project to', named('name', 'to')),
  'registry.login': withName('set the credential for the registry', named('host')),
  'registry.logout': withName('removed the credential for the registry', named('host')),
  'run.cancel': withName('cancelled a run of', app),
  'run.start': d => `ran${named('program')(d)}${inWords('in a VM of', 'app')(d)}`,
  'scm.installed': withName('connected repositories of', named('login')),
  'security_rule.create': withName('added a firewall rule to', app),
  'security_rule.delete': withName('removed a firewall rule from', app),
  'snapshot.create': withName('created the VM snapshot'),
  'snapshot.delete': withName('deleted the VM snapshot'),
  'snapshot.fork': withName('forked a VM snapshot', named('name')),
  'snapshot.restore': withName('restored the VM snapshot'),
  'token.created': withName('created the access token'),
  'token.revoked': withName('revoked the access token'),
  'vm.directory_created': withName('created the folder', path),
  'vm.exec': withName('ran', named('program')),
  'vm.file_moved': withName('moved the file', path),
  'vm.file_read': withName('read the file', path),
  'vm.file_removed': withName('removed the file', path),
  'vm.file_written': withName('wrote the file', path),
  'vm.files_listed': withName('listed the files of', path),
  'vm.session_closed': 'closed a session in a VM',
  'vm.session_ended': 'ended a session in a VM',
  'vm.session_opened': withName('opened a session in a VM:', named('program')),
  'vm.session_signaled': 'sent a signal to a session in a VM',
  'tcp_service.delete': d => `removed the TCP service${named('service')(d)}${ofApp(d)}`,
  'tcp_service.set': d => `set the TCP service${named('service')(d)}${ofApp(d)}`,
  'volume.attach': withName('attached the volume'),
  'volume.attach_runtime': withName('attached the volume'),
  'volume.clone': withName('cloned the volume'),
  'volume.create': withName('created the volume'),
  'volume.delete': withName('deleted the volume'),
  'volume.detach': withName('detached the volume'),
  'volume.detach_runtime': withName('detached the volume'),
  'volume.grow': withName('grew the volume'),
  'volume.move': withName('moved the volume'),
  'volume.move_cancel': withName('cancelled the move of the volume'),
  'volume.restore': withName('restored the volume'),
  'volume.schedule': withName('set the snapshot schedule of the volume'),
  'volume.snapshot': withName('created a snapshot of the volume'),
  'volume.snapshot_delete': withName('deleted a snapshot of the volume'),
}

export const describedActions: readonly string[] = Object.keys(words)

const longest = 300

/**
 * Describes what happened, without the actor: `deployed web (nginx:1.27)`. The length is bounded, because details may
 * come from requests.
 */
export function inWordsOf(action: string, details: unknown): string {
  const found = words[action]
  const given: Details =
    typeof details === 'object' && details !== null ? Object.fromEntries(Object.entries(details)) : {}
  const said = found === undefined ? action.replaceAll(/[._]/g, ' ') : typeof found === 'string' ? found : found(given)
  return said.slice(0, longest)
}
