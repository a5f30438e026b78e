/**
 * SQL for the name of an account that members of a project see: the account's name if it has one, otherwise its e-mail
 * address.
 */
export const accountName = (account: string) =>
  `coalesce(nullif(trim(concat_ws(' ', ${account}.first_name, ${account}.last_name)), ''), ${account}.email)`
