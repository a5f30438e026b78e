/**
 * First uid for VMs: above all ids that systemd assigns (its documentation, UIDS-GIDS), and below 2^31. These users
 * never log in.
 */
export const firstUid = 1_900_000_000
export const uidCount = 2 ** 27
