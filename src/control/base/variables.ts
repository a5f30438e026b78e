/** SQL for the variables that deployments of an app get. */

/**
 * Returns SQL for the variables of the app with the id `app`: its own, and those of its environment groups. Of
 * variables with the same name, the app's own one wins, then that of the group that was attached last.
 * @returns a table with `name`, `value` (encrypted for the purpose `app.env`) and `plain`
 */
export const variablesOf = (app: string): string =>
  `(SELECT DISTINCT ON (name) name, value, plain FROM (
      SELECT name, value, plain_at IS NOT DISTINCT FROM updated_at AS plain, NULL::integer AS position
      FROM app_env WHERE app_id = ${app}
      UNION ALL
      SELECT v.name, v.value, v.plain_at IS NOT DISTINCT FROM v.updated_at, g.position
      FROM app_env_group g JOIN env_group_value v ON v.group_id = g.group_id WHERE g.app_id = ${app}
    ) every ORDER BY name, position DESC NULLS FIRST)`

/**
 * Returns SQL for the id of the app whose variables the deployments of an app get: that of the web app for its workers.
 */
export const ownerOfVariables = (app: string): string => `(SELECT coalesce(env_of, id) FROM app WHERE id = ${app})`
