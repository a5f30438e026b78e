-- Sealed, purpose `volume.key`: what a volume in an encrypted pool is opened with. Clones have their source's.
ALTER TABLE volume ADD COLUMN key bytea;
