/** Finds the deployment that the path of a session request names. */
import type { Sql } from '../../db/db.ts'
import { findDeployment, type Deployment } from '../deployments/index.ts'
import { notFound } from '../http/errors.ts'

export interface JobCall {
  readonly project: { readonly id: string }
  readonly params: { readonly app_name: string; readonly job_id: string }
}

export async function deploymentOf(sql: Sql, { project, params }: JobCall): Promise<Deployment> {
  const d = await findDeployment(sql, project.id, params.app_name, params.job_id)
  if (!d) throw notFound()
  return d
}
