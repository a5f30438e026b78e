/** SQL for the name that members of a project see of an account: its name, otherwise its e-mail address. */
export const accountName = (account: string) =>
  `coalesce(nullif(trim(concat_ws(' ', ${account}.first_name, ${account}.last_name)), ''), ${account}.email)`
