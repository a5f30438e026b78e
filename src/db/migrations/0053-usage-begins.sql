-- What ran before usage was counted is counted from now on.
INSERT INTO usage_span (vm_id, project_id, vcpus, memory_mib)
SELECT v.id, v.project_id, v.vcpus, v.memory_mib FROM vm v
WHERE v.host_id IS NOT NULL AND NOT EXISTS (SELECT FROM usage_span s WHERE s.vm_id = v.id AND s.ended_at IS NULL);
