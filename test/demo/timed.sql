-- Runs :command and records its time as (:step, :variant, :what).
SELECT clock_timestamp() AS begun \gset
:command ;
INSERT INTO demo.measure
VALUES (:'step', :'variant', :'what', 1000 * extract(epoch FROM clock_timestamp() - :'begun'));
