/** Who requested a deployment. */
import { type Tx, statement } from '../../db/db.ts'
import { accountName } from '../http/account-name.ts'

/**
 * SQL for the name of a deployment's author: that of the account, or without an account that of the author of the push.
 */
export const authorOf = (deployment: string) => `coalesce(
    (SELECT ${accountName('who')} FROM account who WHERE who.id = ${deployment}.author_id), ${deployment}.git_author)`

const markActivated = statement(
  'deployments.markActivated',
  `UPDATE deployment SET author_id = $2, git_author = '', activated_at = now() WHERE id = $1`,
)

/** Makes the account the author of the rollout that starts now. */
export const activatedBy = (tx: Tx, id: string, accountId: string) => tx.run(markActivated, [id, accountId])
