import type { DeploymentDiff } from '../../client/index.ts'
import { appFlag, appOf } from '../folder.ts'
import { listing } from '../output.ts'
import { said, type Verb } from '../verb.ts'

export const deploymentDiff: Verb = {
  usage: 'diff [a] [b]',
  says: 'Show what changed from deployment a to b: image, commit, size, settings, names of variables and paths of files',
  options: [appFlag],
  example: 'mote deployments diff --app web\nmote deployments diff job-77aa01e2c1d04f5b job-3f6d0c4f2a1097e0',
  async run(call) {
    const app_name = await appOf(call)
    const [a, b] = call.args
    // With fewer than two arguments, compare a deployment with the one before it: the given one, else the newest one.
    const job_id = b || a || (await call.client.listDeployments({ app_name, query: { limit: 1 } }))[0]?.job_id
    if (!job_id) throw new Error(`${app_name} has no deployments. Deploy it: mote deploy --app ${app_name}`)
    const diff = await call.client.compareDeployment({ app_name, job_id, query: b ? { base: a } : {} })
    return said(diff, diffText(diff))
  },
}

function diffText({ job_id, base, fields, ...diff }: DeploymentDiff): string {
  const rows = [
    ...fields.map(({ field, from, to }) => [field.replaceAll('_', ' '), from ?? '', to ?? '']),
    ...diff.env_added.map(name => [`variable ${name}`, '', 'added']),
    ...diff.env_changed.map(name => [`variable ${name}`, '', 'changed']),
    ...diff.env_removed.map(name => [`variable ${name}`, '', 'removed']),
    ...diff.files_added.map(path => [`file ${path}`, '', 'added']),
    ...diff.files_changed.map(path => [`file ${path}`, '', 'changed']),
    ...diff.files_removed.map(path => [`file ${path}`, '', 'removed']),
  ]
  return listing(
    ['CHANGED', base ?? 'BEFORE', job_id],
    rows,
    `${job_id} and ${base ?? 'the state before it'} have the same image, size, settings, variables and files.`,
  )
}
