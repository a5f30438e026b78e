import { type Tx, statement } from '../../db/db.ts'

const copyProcess = statement(
  'forks.copyProcess',
  `UPDATE app fork SET kind = a.kind, command = d.command, arguments = d.arguments, restart = d.restart, strategy = a.strategy, hosts = a.hosts FROM deployment d JOIN app a ON a.id = d.app_id
   WHERE fork.id = $1 AND d.id = $2`,
)

// Copies the deployment's variables to the fork. A variable that the app still has with the same value and as a plain
// variable stays plain. All others become secrets.
const copyVariables = statement(
  'forks.copyVariables',
  `INSERT INTO app_env (app_id, name, value, plain_at)
   SELECT $1, e.name, e.value, CASE WHEN own.plain_at = own.updated_at AND own.value = e.value THEN now() END
   FROM deployment_env e JOIN deployment d ON d.id = e.deployment_id
   LEFT JOIN app_env own ON own.app_id = d.app_id AND own.name = e.name WHERE e.deployment_id = $2`,
)

const copyFiles = statement(
  'forks.copyFiles',
  `INSERT INTO app_file (app_id, path, mode, content, variable, size_bytes)
   SELECT $1, path, mode, content, variable, coalesce(octet_length(content) * 3 / 4, 0) FROM deployment_file WHERE deployment_id = $2`,
)

/**
 * Copies the command, variables and files of a deployment to its fork, so that later replicas of the fork run the same
 * program.
 */
export async function keepProcess(tx: Tx, appId: string, deploymentId: string): Promise<void> {
  const from = [appId, deploymentId]
  await Promise.all([tx.run(copyProcess, from), tx.run(copyVariables, from), tx.run(copyFiles, from)])
}
