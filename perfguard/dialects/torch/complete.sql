-- Cycles whose operators all carry a number and whose numbers are 0 to N-1, each once: nothing of the host was lost. Kineto numbers its
-- host events through before it writes them (torch/csrc/autograd/profiler_kineto.cpp, "Ev Idx", torch 2.0 and later).
select cycle
from spans
where category = number_of('cpu_op')
group by cycle
having count(*) = count(event_index) and cycle not in (from misnumbered)
