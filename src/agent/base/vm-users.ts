/** Above all ids that systemd hands out (its documentation, UIDS-GIDS), below 2^31. Nobody logs in with these. */
export const firstUid = 1_900_000_000
export const uidCount = 2 ** 27
